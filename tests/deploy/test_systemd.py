"""systemd takes the unit and finds little that it may do; its credentials are keys of the configuration."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from broker.config.keys import annotation_of
from tests.deploy.conftest import DEPLOY, Run

UNIT = (DEPLOY / "systemd" / "context-broker.service").read_text()
MOST_EXPOSED = 20
"""Tenths of systemd's own measure, of 100: below 20 is "OK"."""


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit with a program and a user that there are on this machine."""
    path = tmp_path / "context-broker.service"
    program = str(Path(sys.executable).with_name("context-broker"))
    text = UNIT.replace("/opt/context-broker/bin/context-broker", program).replace("User=context-broker", "User=root")
    path.write_text(text)
    return path


def test_it_is_a_unit(unit: Path, tool: Run) -> None:
    done = tool("systemd-analyze", "verify", str(unit))
    assert (done.returncode, [line for line in done.stderr.splitlines() if unit.name in line]) == (0, [])


def test_it_may_do_little(unit: Path, tool: Run) -> None:
    unit.write_text(unit.read_text().replace("User=root", "User=someone"))
    done = tool("systemd-analyze", "security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(unit))
    assert done.returncode == 0, done.stdout


def test_its_credentials_are_files_of_the_configuration() -> None:
    names = re.findall(r"^LoadCredential=(\w+):", UNIT, re.MULTILINE)
    assert names
    assert all(Path in annotation_of(name.split("__")) for name in names)


def test_it_stops_later_than_the_broker_does() -> None:
    from broker.settings import Server

    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert Server().grace_seconds < int(seconds)
    assert "RestartPreventExitStatus=2" in UNIT
