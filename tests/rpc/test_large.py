"""Promise: what is expected to take milliseconds is made in one of few threads; a typical request is not."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import ContextVar

import pytest

from broker.core.frames import Frame
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd
from broker.core.scores import UNIT
from broker.rpc.large import FRAME_SECONDS, LOOP_SECONDS, THREADS, TOKEN_SECONDS, in_thread_if, is_large

AMPLE = Grant(1_000_000, 1_000_000_000)


def lane(frames: int, content_bytes: int, provider: str = "a") -> Lane:
    intake = LaneIntake(provider, UNIT, AMPLE)
    intake.take([Frame(id=str(i), title="t", content="c" * content_bytes, score=0.5) for i in range(frames)])
    return intake.close(LaneEnd.COMPLETE)


def test_a_typical_request_is_not_large_and_no_lanes_are_not() -> None:
    assert not is_large([lane(25, 1024, f"p{i}") for i in range(4)])
    assert not is_large([])


@pytest.mark.parametrize("frames", [1, 20, 150])
def test_where_it_begins_depends_on_frames_and_on_their_tokens(frames: int) -> None:
    tokens = (LOOP_SECONDS - FRAME_SECONDS * frames) / TOKEN_SECONDS / frames
    assert not is_large([lane(frames, int(tokens * 4 * 0.98))])
    assert is_large([lane(frames, int(tokens * 4 * 1.02) + 4)])


def test_frames_alone_can_be_too_many_those_that_were_refused_among_them() -> None:
    most = int(LOOP_SECONDS / FRAME_SECONDS)
    assert not is_large([lane(most - 5, 4)])
    assert is_large([lane(most, 4, "a"), lane(2, 4, "b")])
    refused = LaneIntake("a", UNIT, AMPLE)
    refused.take([Frame(id="", title="", content="", score=0.5)] * (most + 2))
    closed = refused.close(LaneEnd.COMPLETE)
    assert not closed.candidates
    assert is_large([closed])


async def test_work_is_done_in_a_thread_only_where_it_is_large() -> None:
    here = threading.get_ident()
    assert await in_thread_if(False, threading.get_ident) == here
    assert await in_thread_if(True, threading.get_ident) != here


async def test_large_work_never_has_more_than_its_threads_and_sees_its_callers_context() -> None:
    name: ContextVar[str] = ContextVar("name")
    name.set("its caller's")
    counting, busy, most = threading.Lock(), 0, 0

    def work() -> str:
        nonlocal busy, most
        with counting:
            busy += 1
            most = max(most, busy)
        time.sleep(0.01)
        with counting:
            busy -= 1
        return name.get()

    assert (
        await asyncio.gather(*(in_thread_if(True, work) for _ in range(3 * THREADS))) == ["its caller's"] * 3 * THREADS
    )
    assert most == THREADS


async def test_a_failure_in_a_thread_is_its_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        await in_thread_if(True, divmod, 1, 0)
