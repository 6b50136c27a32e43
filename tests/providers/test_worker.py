"""Heavy work runs in one thread of the provider's own, in order, and stops when no one waits for it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from broker.errors import FailedPrecondition
from broker.providers.worker import Stop, Stopped, Worker


@pytest.fixture
def worker():
    worker = Worker("test")
    yield worker
    worker.close(lambda: None)


async def test_all_work_sees_the_same_thread_and_not_the_callers(worker: Worker):
    threads = {await worker.run(lambda stop: threading.get_ident()) for _ in range(3)}
    threads.add(worker.call(threading.get_ident))
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_cancelling_the_caller_stops_work_that_runs(worker: Worker):
    begun, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work(stop: Stop) -> None:
        loop.call_soon_threadsafe(begun.set)
        try:
            while True:
                stop.check()
        except Stopped:
            loop.call_soon_threadsafe(ended.set)
            raise

    task = asyncio.create_task(worker.run(work))
    await asyncio.wait_for(begun.wait(), 10)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(ended.wait(), 10)


async def test_cancelling_the_caller_drops_work_not_begun(worker: Worker):
    release = threading.Event()
    done: list[str] = []
    first = asyncio.create_task(worker.run(lambda stop: release.wait(10)))
    second = asyncio.create_task(worker.run(lambda stop: done.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    assert await first
    await worker.run(lambda stop: done.append("third"))
    assert done == ["third"]


async def test_an_error_in_the_work_reaches_the_caller_and_the_thread_lives_on(worker: Worker):
    with pytest.raises(ZeroDivisionError):
        await worker.run(lambda stop: 1 // 0)
    assert await worker.run(lambda stop: 7) == 7


async def test_a_closed_worker_says_so_and_closing_twice_does_nothing():
    worker, closed = Worker("test"), []
    worker.close(lambda: closed.append(1))
    worker.close(lambda: closed.append(2))
    assert closed == [1]
    with pytest.raises(FailedPrecondition) as error:
        await worker.run(lambda stop: None)
    assert error.value.reason == "PROVIDER_CLOSED"
