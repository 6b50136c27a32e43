"""Promise: a store's disk that fills up, or whose file goes away, costs no answer, and the record is true (H83)."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import grpc.aio
import pytest

from broker.client import ContextClient
from broker.core.composition import AuditState
from tests.faults.answered import Answered, missing, settings
from tests.faults.processes import Process, broker_process
from tests.rpc.peers import Peer

KIB = 1024


class SmallFiles:
    """A limit to how large a file may become, which is raised where there is to be room."""

    def __init__(self, _: Path) -> None:
        if (prlimit := shutil.which("prlimit")) is None:
            pytest.skip("no prlimit command on this machine to limit files with")
        self.wrapper = (prlimit, f"--fsize={256 * KIB}:unlimited", "--")

    def fill(self, broker: Process) -> None:
        """It is nearly full from the start."""

    def empty(self, broker: Process) -> None:
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


class SmallDisk:
    """A file system in memory that only the broker sees, and another's large file on it."""

    def __init__(self, folder: Path) -> None:
        mount = f'mount -t tmpfs -o size=2m tmpfs "{folder}" && exec "$@"'
        self.wrapper = ("unshare", "--mount", "--map-root-user", "--user", "sh", "-c", mount, "sh")
        if shutil.which("unshare") is None or subprocess.run([*self.wrapper, "true"], capture_output=True).returncode:
            pytest.skip("no file system can be mounted here")
        self._folder = folder

    def fill(self, broker: Process) -> None:
        left = os.statvfs(self._other(broker).parent)
        self._other(broker).write_bytes(bytes(left.f_bavail * left.f_frsize))

    def empty(self, broker: Process) -> None:
        self._other(broker).unlink()

    def _other(self, broker: Process) -> Path:
        return Path(f"/proc/{broker.pid}/root{self._folder}/other")


@pytest.mark.parametrize("kind", [SmallFiles, SmallDisk])
async def test_a_full_disk_costs_records_alone_and_they_are_kept_again_once_there_is_room(
    tmp_path: Path, kind: type[SmallFiles | SmallDisk]
) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()
    disk, answered = kind(folder), Answered()
    text = settings(kind="sqlite", file=str(folder / "c.db"))
    async with (
        broker_process(tmp_path, settings=text, wrapper=disk.wrapper) as broker,
        grpc.aio.insecure_channel(broker.address) as channel,
        ContextClient(broker.address) as client,
    ):
        peer = Peer(channel)
        await answered.until_state(peer, AuditState.RECORDED)
        disk.fill(broker)
        await answered.until_state(peer, AuditState.DEGRADED)
        # What is there can be read meanwhile.
        assert await missing(client, answered) == []
        disk.empty(broker)
        await answered.until_state(peer, AuditState.RECORDED)
        assert await missing(client, answered) == []
        broker.send(signal.SIGTERM)
        assert await broker.ended() == 0
        assert "Traceback" not in broker.errors


def removed(file: Path) -> None:
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()


async def test_what_is_recorded_after_its_file_was_taken_away_is_in_the_next_one(tmp_path: Path) -> None:
    file, before, after = tmp_path / "c.db", Answered(), Answered()
    text = settings(kind="sqlite", file=str(file))
    async with broker_process(tmp_path, settings=text) as broker, grpc.aio.insecure_channel(broker.address) as channel:
        peer = Peer(channel)
        await before.until_state(peer, AuditState.RECORDED)
        removed(file)
        await after.until_state(peer, AuditState.DEGRADED)
        await after.until_state(peer, AuditState.RECORDED)
        broker.send(signal.SIGKILL)
        await broker.ended()
    async with broker_process(tmp_path, settings=text) as broker, ContextClient(broker.address) as client:
        assert await missing(client, after) == []


async def test_a_file_that_was_damaged_stops_the_next_start_in_plain_words(tmp_path: Path) -> None:
    file, answered = tmp_path / "c.db", Answered()
    text = settings(kind="sqlite", file=str(file))
    async with broker_process(tmp_path, settings=text) as broker, grpc.aio.insecure_channel(broker.address) as channel:
        await answered.until_state(Peer(channel), AuditState.RECORDED)
        broker.send(signal.SIGTERM)
        assert await broker.ended() == 0
    file.write_bytes(b"damage" * (file.stat().st_size // 6))
    async with broker_process(tmp_path, settings=text) as broker:
        assert await broker.ended() == 2
    assert "is not a database" in str(broker.ready["message"])
