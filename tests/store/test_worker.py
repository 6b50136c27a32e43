"""Promise: what a thread is given is done in turn, its outcome comes back, and what no one waits for is not begun."""

from __future__ import annotations

import asyncio
import threading

import pytest

from broker.store.worker import Worker


async def test_what_is_given_is_done_in_turn_in_one_thread_of_its_own() -> None:
    worker, done = Worker("one"), []

    def work(number: int) -> tuple[int, str]:
        done.append(number)
        return number, threading.current_thread().name

    assert await asyncio.gather(*(worker.run(work, number) for number in range(20))) == [(n, "one") for n in range(20)]
    assert done == list(range(20))
    await asyncio.to_thread(worker.close)


async def test_what_it_raises_comes_back_and_the_next_is_done() -> None:
    worker = Worker("one")
    with pytest.raises(ZeroDivisionError):
        await worker.run(divmod, 1, 0)
    assert await worker.run(divmod, 7, 2) == (3, 1)
    await asyncio.to_thread(worker.close)


async def test_what_no_one_waits_for_is_not_begun_and_what_was_begun_is_finished() -> None:
    worker, begun, go, done = Worker("one"), threading.Event(), threading.Event(), []

    def slow() -> None:
        begun.set()
        go.wait(10)
        done.append("begun")

    first = asyncio.ensure_future(worker.run(slow))
    second = asyncio.ensure_future(worker.run(done.append, "waiting"))
    await asyncio.to_thread(begun.wait, 10)
    first.cancel()
    second.cancel()
    await asyncio.wait([first, second])
    go.set()
    assert await worker.run(lambda: "next") == "next"
    assert done == ["begun"]
    await asyncio.to_thread(worker.close)


async def test_closing_waits_for_what_was_given_and_takes_no_more() -> None:
    worker, done = Worker("one"), []
    running = asyncio.ensure_future(worker.run(lambda: done.append(threading.Event().wait(0.05))))
    await asyncio.sleep(0)
    await asyncio.to_thread(worker.close)
    assert done == [False]
    await running
    worker.close()
    with pytest.raises(RuntimeError, match="closed"):
        await worker.run(done.append, True)


def test_one_that_was_given_nothing_has_no_thread_to_close() -> None:
    Worker("one").close()
