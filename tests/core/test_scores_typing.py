"""A type checker sees most misuses of a score before anything runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUP = """
import math
import statistics
from broker.core.scores import UNIT, LocalScore, lane_key

a = LocalScore("a", UNIT, 0.5)
b = LocalScore("b", UNIT, 0.5)
"""
MISUSES = [
    "a + b",
    "a - 1",
    "2 * a",
    "a / 2",
    "-a",
    "abs(a)",
    "round(a)",
    "float(a)",
    "int(a)",
    "sum([a, b])",
    "math.fsum([a, b])",
    "statistics.mean([a, b])",
    "a < 0.5",
    "a >= 1",
    "0.5 <= a",
    "max([a, 0.5])",
    "sorted([a, 0.5])",
    "bool_of = 1 if a else 0",
    "a.value",
    "number: float = a",
    "lane_key(0.5, 'a')",
    "a.passes(b)",
]
USES = ["a < a", "sorted([a, a])", "max(a, a)", "a.passes(0.5)", "a.shown().value", "lane_key(a, 'a')"]


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the type checker says of each line."""
    pytest.importorskip("mypy", reason="mypy is not installed: install the dev extra")
    folder = tmp_path_factory.mktemp("typing")
    lines = [*SETUP.splitlines(), *MISUSES, *USES]
    (folder / "snippet.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(folder / "cache"), "--no-error-summary", "--no-pretty", str(folder / "snippet.py")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said: dict[str, list[str]] = {line: [] for line in lines}
    for complaint in done.stdout.splitlines():
        found = re.match(r".*snippet\.py:(\d+): error: (.*)", complaint)
        if found:
            said[lines[int(found[1]) - 1]].append(found[2])
    assert any(said.values()), done.stdout + done.stderr
    return said


@pytest.mark.parametrize("misuse", MISUSES)
def test_a_misuse_is_an_error(complaints: dict[str, list[str]], misuse: str):
    assert complaints[misuse], f"{misuse} passes"


@pytest.mark.parametrize("use", USES)
def test_what_one_provider_may_do_is_none(complaints: dict[str, list[str]], use: str):
    assert complaints[use] == []
