"""What the checks of the deployment files share: the files, the tools where they are installed, and secrets to use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def tool() -> Run:
    """Runs a program that may be missing: the test is skipped then, and says which one."""

    def run(name: str, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
        beside = Path(sys.executable).with_name(name)
        path = str(beside) if beside.exists() else shutil.which(name)
        if path is None:
            pytest.skip(f"{name} is not installed")
        return subprocess.run([path, *arguments], capture_output=True, text=True, check=False, timeout=100, **options)

    return run


@pytest.fixture(scope="session")
def made_secrets(tmp_path_factory: pytest.TempPathFactory, tool: Run) -> Path:
    """What ``make-secrets.sh`` makes."""
    directory = tmp_path_factory.mktemp("made")
    done = tool("bash", str(DEPLOY / "make-secrets.sh"), str(directory), "broker.example")
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="session")
def broker_command(tool: Run) -> Run:
    """Runs ``context-broker``."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return tool("context-broker", *arguments)

    return run
