"""The wheel holds both packages and nothing else at its top, and the client imports from it without server or CLI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    pytest.importorskip("hatchling", reason="hatchling is not installed: install the dev extra")
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (path,) = out.glob("*.whl")
    return path


def test_the_wheel_holds_both_packages_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == {"broker", "contextbroker"}
    assert {"broker/py.typed", "contextbroker/py.typed", "broker/client/__init__.py"} <= set(names)
    assert {f"contextbroker/v1/{stem}_pb2.py" for stem in ("frame", "strategy", "composition")} <= set(names)
    assert {f"contextbroker/v1/{stem}_pb2_grpc.py" for stem in ("provider_service", "context_service")} <= set(names)
    sources = {
        path.relative_to(ROOT).as_posix() for path in (ROOT / "broker").rglob("*.py") if "__pycache__" not in path.parts
    }
    assert sources <= set(names)


def test_the_client_imports_from_the_wheel_alone(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    script = (
        "import json, sys, broker.client, contextbroker.v1;"
        "print(json.dumps([broker.client.__file__, contextbroker.v1.__file__, sorted(sys.modules)]))"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    client, contract, modules = json.loads(result.stdout)
    assert Path(client).is_relative_to(tmp_path)
    assert Path(contract).is_relative_to(tmp_path)
    unwanted = {"broker.rpc", "broker.cli", "broker.config", "click", "rich", "pydantic", "protovalidate", "uvloop"}
    assert unwanted.isdisjoint(modules)
