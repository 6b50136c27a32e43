"""Whoever watches over the process is told its states, and no one else is."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from broker.rpc.supervisor import READY, reloading, tell


@pytest.mark.parametrize("abstract", [False, True])
def test_a_state_arrives(abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0{name}" if abstract else name)
        listening.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if abstract else name)
        tell(READY)
        assert listening.recv(100) == b"READY=1"
        tell(reloading())
        first, second = listening.recv(100).decode().splitlines()
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0


@pytest.mark.parametrize("address", ["", "relative", "/no/such/socket"])
def test_where_no_one_listens_nothing_happens(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    tell(READY)
