"""The core is pure: it reaches no network, clock, chance or file, and knows nothing of the layers around it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import broker.core

MODULES = sorted(Path(broker.core.__file__).parent.rglob("*.py"))
IMPURE = {
    "asyncio", "google", "grpc", "io", "logging", "os", "pathlib", "random", "secrets", "socket", "sqlite3",
    "subprocess", "sys", "tempfile", "threading", "time", "uuid", "contextbroker",
}  # fmt: skip


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(Path(broker.core.__file__).parent)))
def test_a_module_of_the_core_imports_nothing_impure(module):
    imported = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert not {name for name in imported if name.split(".")[0] in IMPURE}
    own = {name for name in imported if name.split(".")[0] == "broker"}
    assert all(name in ("broker", "broker.errors") or name.startswith("broker.core.") for name in own)
