"""Work in threads waits for its place, outlives nobody's patience, and its failures are told without their text."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from broker.rerankers.reranker import RerankFailed
from broker.rerankers.threads import Threads

SAFETY = 20.0


async def test_the_result_comes_back_from_a_thread_that_the_process_does_not_wait_for():
    thread = await Threads("work", 1).run(threading.current_thread)
    assert thread is not threading.main_thread()
    assert thread.daemon
    assert thread.name == "work"


@pytest.mark.parametrize(
    "raised", [ValueError("secret"), SystemExit("secret"), StopIteration("secret"), KeyboardInterrupt()]
)
async def test_what_it_raises_is_told_by_its_type_alone(raised: BaseException):
    def work() -> None:
        raise raised

    with pytest.raises(RerankFailed) as caught:
        await Threads("work", 1).run(work)
    assert str(caught.value) == f"it failed with {type(raised).__name__}"


async def test_a_place_is_held_until_the_work_is_done_even_if_no_one_waits():
    threads = Threads("work", 1)
    started, go_on = threading.Event(), threading.Event()

    def held() -> None:
        started.set()
        go_on.wait(SAFETY)

    first = asyncio.create_task(threads.run(held))
    await asyncio.to_thread(started.wait, SAFETY)
    first.cancel()
    await asyncio.wait({first})
    second = asyncio.create_task(threads.run(lambda: "second"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done()
    go_on.set()
    assert await asyncio.wait_for(second, SAFETY) == "second"


async def test_who_gives_up_waiting_for_a_place_takes_none():
    threads = Threads("work", 1)
    go_on = threading.Event()
    first = asyncio.create_task(threads.run(lambda: go_on.wait(SAFETY)))
    waiting = asyncio.create_task(threads.run(lambda: "never"))
    for _ in range(5):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    go_on.set()
    await asyncio.wait_for(first, SAFETY)
    assert await asyncio.wait_for(threads.run(lambda: "third"), SAFETY) == "third"


async def test_a_thread_that_cannot_be_started_takes_no_place(monkeypatch: pytest.MonkeyPatch):
    def full(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threads = Threads("work", 1)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        with pytest.raises(RerankFailed, match="no thread could be started"):
            await threads.run(lambda: "never")
    assert await asyncio.wait_for(threads.run(lambda: "second"), SAFETY) == "second"


def test_a_thread_that_hangs_does_not_keep_the_process():
    program = (
        "import asyncio, threading\n"
        "from broker.rerankers.threads import Threads\n"
        "async def main():\n"
        "    started = threading.Event()\n"
        "    work = lambda: (started.set(), threading.Event().wait())\n"
        "    task = asyncio.create_task(Threads('work', 1).run(work))\n"
        "    await asyncio.to_thread(started.wait)\n"
        "    task.cancel()\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
