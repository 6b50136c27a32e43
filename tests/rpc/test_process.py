"""SIGHUP has a running daemon take a changed configuration: all of it or nothing, and no call is lost."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from broker.core.scores import ScoreScale
from broker.errors import InvalidArgument
from tests.rpc.peers import LaneEnded, Peer, frames, lanes

LONG = 30.0

SERVE = """
import sys
from pathlib import Path
from broker.config import load
from broker.rpc.process import run
def read(): return load({"server": {"listen": "127.0.0.1:0"}}, file=Path(sys.argv[1]))
sys.exit(run(read(), on_ready=lambda address: print(address, flush=True), reread=read))
"""


class Daemon:
    """A daemon in a process of its own, its file, and what it says on stderr."""

    def __init__(self, process: asyncio.subprocess.Process, file: Path, supervisor: socket.socket) -> None:
        self.process = process
        self.file = file
        self.address = ""
        self._supervisor = supervisor

    async def started(self) -> None:
        assert self.process.stdout is not None
        self.address = (await asyncio.wait_for(self.process.stdout.readline(), LONG)).decode().strip()
        assert self.address
        assert await self.state() == "READY=1"

    async def state(self) -> str:
        return (await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._supervisor, 100), LONG)).decode()

    async def reload(self, text: str) -> dict[str, Any]:
        """Changes the file and sends SIGHUP; the line that the log has of it."""
        self.file.write_text(text)
        self.process.send_signal(signal.SIGHUP)
        assert (await self.state()).startswith("RELOADING=1")
        assert await self.state() == "READY=1"
        assert self.process.stderr is not None
        while True:
            line = json.loads(await asyncio.wait_for(self.process.stderr.readline(), LONG))
            if "read again" in line["event"]:
                return line


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    file = tmp_path / "broker.toml"
    file.write_text("[limits]\nmax_tokens = 100\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.setblocking(False)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            SERVE,
            str(file),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"NOTIFY_SOCKET": str(tmp_path / "notify")},
        )
        daemon = Daemon(process, file, supervisor)
        try:
            await daemon.started()
            yield daemon
        finally:
            if process.returncode is None:
                process.terminate()
            await asyncio.wait_for(process.communicate(), LONG)
    assert process.returncode == 0


async def test_limits_and_the_table_of_providers_change_under_a_running_request(daemon: Daemon) -> None:
    async with grpc.aio.insecure_channel(daemon.address) as channel:
        peer = Peer(channel)
        provider = await peer.attach("b")
        running = asyncio.create_task(peer.compose(max_tokens=100, collect_timeout=LONG))
        ask = await provider.hear_ask()
        line = await daemon.reload(
            "[limits]\nmax_tokens = 50\n[ranking]\nlane_order = ['z', 'b']\n[log]\nlevel = 'debug'\n"
        )
        assert line["changed"] == ["limits.max_tokens", "ranking.lane_order", "log.level"]
        refused = (await peer.compose(max_tokens=100)).error
        assert isinstance(refused, InvalidArgument)
        assert [each.reason for each in refused.violations] == ["MAX_TOKENS"]
        await provider.frames(ask.query_id, frames(("x", 0.5)))
        await provider.say(LaneEnded(ask.query_id))
        assert lanes((await running).composition()) == {"b": "COMPLETE"}
        assert list(await peer.providers()) == ["z", "b"]


async def test_what_cannot_be_taken_changes_nothing(daemon: Daemon) -> None:
    policy = "policy = 'tokens'\ntokens_file = '/none'\nprincipals_file = '/none'\n"
    cases = {
        "[limits]\nmax_tokns = 50\n": "there is no key 'limits.max_tokns'",
        "[limits]\nmax_tokens = 50\n[server]\nheartbeat_seconds = 3\n": "is needed to change server.heartbeat_seconds",
        f"[limits]\nmax_tokens = 50\n[auth]\n{policy}": "auth.tokens_file: /none",
        "[limits]\nmax_tokens = 50\n[providers.b.scale]\nid = 'bm25'\n": "providers.b: it is attached with",
        "not TOML": "is not TOML",
    }
    async with grpc.aio.insecure_channel(daemon.address) as channel:
        peer = Peer(channel)
        provider = await peer.attach("b", scale=ScoreScale())
        for text, problem in cases.items():
            line = await daemon.reload(text)
            assert line["level"] == "error"
            assert problem in line["problem"]
            running = asyncio.create_task(peer.compose(max_tokens=100))
            ask = await provider.hear_ask()
            await provider.say(LaneEnded(ask.query_id))
            assert lanes((await running).composition()) == {"b": "EMPTY"}


async def test_a_policy_that_asks_for_tokens_ends_the_calls_that_show_none(daemon: Daemon, tmp_path: Path) -> None:
    tokens, principals = tmp_path / "tokens", tmp_path / "principals.toml"
    tokens.write_text("")
    principals.write_text("")
    async with grpc.aio.insecure_channel(daemon.address) as channel:
        provider = await Peer(channel).attach("b")
        policy = f"policy = 'tokens'\ntokens_file = '{tokens}'\nprincipals_file = '{principals}'\n"
        await daemon.reload(f"[limits]\nmax_tokens = 100\n[auth]\n{policy}")
        ended = await asyncio.wait_for(provider.ended(), LONG)
        assert ended is not None
        assert ended.reason == "CREDENTIALS"
        error = (await Peer(channel).compose()).error
        assert error is not None
        assert error.reason == "CREDENTIALS"
