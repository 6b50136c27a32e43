"""A service runs until a signal stops it, a second one ends it at once, and what it raises comes out."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

import pytest

from broker.client.running import until_signal
from tests.client.fake import SAFETY


class Service:
    """Serves until it is stopped; stopping takes as long as the test says."""

    def __init__(self) -> None:
        self.serving, self.stopping = asyncio.Event(), asyncio.Event()
        self.stopped, self.let_go = asyncio.Event(), asyncio.Event()

    async def serve(self) -> None:
        self.serving.set()
        await self.let_go.wait()

    async def stop(self) -> None:
        self.stopping.set()
        await self.stopped.wait()
        self.let_go.set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_it_in_its_own_time_and_is_then_nobodys(number: signal.Signals):
    service = Service()
    running = asyncio.create_task(until_signal(service.serve(), service.stop))
    await asyncio.wait_for(service.serving.wait(), SAFETY)
    os.kill(os.getpid(), number)
    await asyncio.wait_for(service.stopping.wait(), SAFETY)
    assert not running.done()
    service.stopped.set()
    await asyncio.wait_for(running, SAFETY)
    assert signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)


async def test_a_second_signal_ends_it_at_once():
    service = Service()
    cancelled = asyncio.Event()

    async def serve() -> None:
        try:
            await service.serve()
        finally:
            cancelled.set()
            service.stopped.set()

    running = asyncio.create_task(until_signal(serve(), service.stop))
    await asyncio.wait_for(service.serving.wait(), SAFETY)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(service.stopping.wait(), SAFETY)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, SAFETY)
    assert cancelled.is_set()


async def test_what_it_raises_comes_out():
    async def serve() -> None:
        raise OSError("the address is taken")

    with pytest.raises(OSError, match="taken"):
        await until_signal(serve(), Service().stop)


def test_in_a_thread_of_someone_elses_it_leaves_signals_alone():
    handlers, ended = [], []

    async def serve() -> None:
        handlers.append(signal.getsignal(signal.SIGTERM))

    def body() -> None:
        asyncio.run(until_signal(serve(), serve))
        ended.append(True)

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=body)
    thread.start()
    thread.join(SAFETY)
    assert (handlers, ended) == ([before], [True])
