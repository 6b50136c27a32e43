"""The walk through two teams on one machine runs as it stands on the page, and shows what its remarks say."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

from tests.deploy.conftest import DEPLOY


def test_the_walk_through(tmp_path: Path) -> None:
    page = (DEPLOY / "README.md").read_text()
    (script,) = re.findall(r"## Two teams on one machine\n.*?```sh\n(.*?)```", page, re.DOTALL)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "context-broker").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m broker.cli "$@"\n')
    (programs / "context-broker").chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_BROKER_")} | {
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(DEPLOY.parent),
        "CONTEXT_BROKER_ADDRESS": address,
        "CONTEXT_BROKER_SERVER__LISTEN": address,
    }
    done = subprocess.run(
        ["bash", "-euc", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    shown = [
        "the configuration is good: context-broker.toml",
        "lanes.md L1-1",
        "knows no provider yet",
        "files",
        "has no composition on record yet in tenant 'red'",
        "files sits out for 60 s",
    ]
    places = [done.stdout.find(text) for text in shown]
    assert -1 not in places, done.stdout
    assert "no tenant of its own; name the one that is meant: blue, red" in done.stderr
