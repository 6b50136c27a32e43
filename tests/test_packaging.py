"""The wheel holds both packages and nothing else at its top, and the client imports from it without server or CLI."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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


ALONE = """
import asyncio, json, sys

refused = set(json.loads(sys.argv[1]))

class Refusing:
    def find_spec(self, name, path=None, target=None):
        # A namespace that others share is looked into by its whole name.
        if name in refused or name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"no module named {name!r}", name=name)

sys.meta_path.insert(0, Refusing())

from broker.rpc.server import Broker
from broker.config import Config

async def main():
    broker = Broker(Config(server={"listen": "127.0.0.1:0"}, log={"level": "error"}))
    print(await broker.start())
    await broker.stop(0)

asyncio.run(main())
"""


def test_the_daemon_starts_with_what_its_extra_brings_and_nothing_else() -> None:
    """Whatever is installed here besides is hidden from it."""
    brought = _brought("context-broker", {"server"})
    modules = {
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if not {canonicalize_name(name) for name in distributions} & brought
    }
    refused = modules | {"opentelemetry.sdk", "opentelemetry.exporter"} - {"broker", "contextbroker"}
    assert {"greenlet", "asyncpg", "tiktoken", "numpy", "hypothesis"} <= refused
    done = subprocess.run(
        [sys.executable, "-c", ALONE, json.dumps(sorted(refused))], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "\n127.0.0.1:" in done.stdout


def _brought(distribution: str, extras: set[str]) -> set[str]:
    """The distributions that installing one with extras installs, itself among them."""
    # What is installed of this project may be older than its own file.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    own = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    found = {canonicalize_name(distribution)}
    waiting = [(line, frozenset[str]()) for line in own]
    seen = set(waiting)
    while waiting:
        line, wanted = waiting.pop()
        needed = Requirement(line)
        if needed.marker is not None and not any(needed.marker.evaluate({"extra": e}) for e in ("", *wanted)):
            continue
        found.add(canonicalize_name(needed.name))
        for further in importlib.metadata.requires(needed.name) or ():
            if (step := (further, frozenset(needed.extras))) not in seen:
                seen.add(step)
                waiting.append(step)
    return found
