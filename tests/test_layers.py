"""Arrows point inward: a part imports what stands below it, gRPC stays at the surface, and gathering needs no codec."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import broker

HOUSE = Path(broker.__file__).parent

BELOW: Mapping[str, tuple[str, ...]] = {
    "errors": (),
    "addresses": (),
    "core": ("errors",),
    "wire": ("core", "errors"),
    "limits": ("errors",),
    "gather": ("core", "errors", "limits", "wire.events"),
    "gate": ("core", "errors"),
    "rerankers": ("core", "errors"),
    "plugins": ("core", "errors", "gate", "rerankers"),
    "settings": ("addresses", "core", "errors"),
    "config": ("errors", "settings"),
    "telemetry": ("core",),
    "tokenizers": ("core", "errors", "settings"),
    "auth": ("core", "errors"),
    "store": ("core",),
    "rpc": (
        "auth",
        "config",
        "core",
        "errors",
        "gather",
        "limits",
        "plugins",
        "rerankers",
        "settings",
        "store",
        "telemetry",
        "tokenizers",
        "wire",
    ),
    "client": ("addresses", "core", "errors", "wire"),
    "providers": ("client", "core", "errors"),
}
"""What each part may import beside itself; the command line, at the top, may import anything."""

SURFACE = ("rpc", "client")
"""Who may import gRPC."""

OF_OTHERS = ("msgspec",)
"""What the innermost parts import of others' making: value types, of which a request makes several a frame. They do
what frozen dataclasses do in a tenth of the time and are no work for the garbage collector; they reach nothing."""

MODULES = [
    module
    for module in sorted(HOUSE.rglob("*.py"))
    if module.parent != HOUSE or module.stem in BELOW
    if "cli" not in module.relative_to(HOUSE).parts
]


def imports(module: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module)
    return found


def part(module: Path) -> str:
    return module.relative_to(HOUSE).with_suffix("").parts[0]


def stands_in(name: str, parts: tuple[str, ...]) -> bool:
    return any(name == f"broker.{own}" or name.startswith(f"broker.{own}.") for own in parts)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(HOUSE)))
def test_a_module_imports_only_what_stands_below_it(module: Path):
    allowed = (part(module), *BELOW[part(module)])
    own = {name for name in imports(module) if name.startswith("broker.")}
    assert {name for name in own if not stands_in(name, allowed)} == set()
    if part(module) not in SURFACE:
        assert not {name for name in imports(module) if name.partition(".")[0] == "grpc"}


@pytest.mark.parametrize("name", ["core", "errors"])
def test_what_is_innermost_needs_value_types_and_nothing_else_that_is_installed(name: str):
    found = {used.partition(".")[0] for module in MODULES if part(module) == name for used in imports(module)}
    assert found - sys.stdlib_module_names - {"broker"} == set(OF_OTHERS)


def test_every_part_of_the_house_has_its_place():
    parts = {part(path) for path in HOUSE.rglob("*.py")} - {"__init__"}
    assert parts == {*BELOW, "cli"}


def test_gathering_loads_neither_the_codec_nor_protobuf_nor_grpc():
    names = [f"broker.gather.{module.stem}" for module in (HOUSE / "gather").glob("*.py") if module.stem != "__init__"]
    code = f"import sys, {', '.join(names)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not {name for name in loaded if name.startswith(("google.protobuf", "grpc", "contextbroker"))}
    assert {name for name in loaded if name.startswith("broker.wire")} == {"broker.wire", "broker.wire.events"}
