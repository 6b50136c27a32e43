"""A caller that asks as often as it is told to, as a process.

``python -m tests.faults.flood ADDRESS SUBJECT FILE HOW NUMBER BODY`` asks with the subject's token until SIGTERM, then
writes to FILE what it got: by status and reason the milliseconds that every answer took, in the order answered, and how
many refusals lacked a detail that they owe. HOW is ``rate`` (NUMBER a second, however long the answers take),
``workers`` (NUMBER at a time, each again as soon as it was answered) or ``burst`` (NUMBER at once, and no more). BODY
is the request in hex. Its log is what it writes; nothing is checked here.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

import grpc.aio
from google.rpc import error_details_pb2, status_pb2

from broker.wire.status import read_details
from tests.rpc.identities import bearer
from tests.rpc.peers import COMPOSE


class Caller:
    """One connection, and what came of every call on it."""

    def __init__(self, channel: grpc.aio.Channel, subject: str, body: bytes) -> None:
        self._method = channel.unary_stream(COMPOSE)
        self._metadata = bearer(subject)
        self._body = body
        self.took: dict[str, list[float]] = {}
        self.incomplete = 0

    async def ask(self) -> None:
        """One call to its end."""
        started = time.monotonic()
        call = self._method(self._body, metadata=self._metadata)
        try:
            while await call.read() is not grpc.aio.EOF:
                pass
        except grpc.aio.AioRpcError:
            pass
        code = await call.code()
        ms = (time.monotonic() - started) * 1000
        what = code.name
        if code is not grpc.StatusCode.OK:
            found = dict(await call.trailing_metadata() or ()).get("grpc-status-details-bin")
            details = None if found is None else read_details(found)
            what = self._reason(code, details) if details is not None else what
        self.took.setdefault(what, []).append(round(ms, 2))

    def _reason(self, code: grpc.StatusCode, status: status_pb2.Status) -> str:
        reason, seen = "", set()
        for detail in status.details:
            kind = detail.type_url.rpartition(".")[2]
            seen.add(kind)
            if kind == "ErrorInfo":
                reason = error_details_pb2.ErrorInfo.FromString(detail.value).reason
        self.incomplete += code is grpc.StatusCode.RESOURCE_EXHAUSTED and not seen >= {"RetryInfo", "QuotaFailure"}
        return reason


async def asking(caller: Caller, how: str, number: float) -> None:
    """Asks for ever, or once in a burst."""
    if how == "burst":
        await asyncio.gather(*(caller.ask() for _ in range(int(number))))
    elif how == "workers":

        async def work() -> None:
            while True:
                await caller.ask()

        await asyncio.gather(*(work() for _ in range(int(number))))
    else:
        tasks: set[asyncio.Task[None]] = set()
        started, asked = time.monotonic(), 0
        while True:
            tasks.add(task := asyncio.create_task(caller.ask()))
            task.add_done_callback(tasks.discard)
            asked += 1
            await asyncio.sleep(max(0.0, started + asked / number - time.monotonic()))


async def called(address: str, subject: str, how: str, number: str, body: str) -> Caller:
    """Asks until it is told to stop."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with grpc.aio.insecure_channel(address) as channel:
        caller = Caller(channel, subject, bytes.fromhex(body))
        task = asyncio.create_task(asking(caller, how, float(number)))
        sys.stdout.write("{}\n")
        sys.stdout.flush()
        await stopping.wait()
        if how == "burst":
            await task
        task.cancel()
        await asyncio.wait([task])
    return caller


def main() -> None:
    """Asks until it is told to stop, and says then what came of it."""
    address, subject, file, *asked = sys.argv[1:]
    caller = asyncio.run(called(address, subject, *asked))
    Path(file).write_text(json.dumps({"took": caller.took, "incomplete": caller.incomplete}))


if __name__ == "__main__":
    main()
