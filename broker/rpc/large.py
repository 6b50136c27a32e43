"""Work that may be large, done in a thread where it is, so that other calls are not held up by it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from broker.core.lanes import Lane

LOOP_SECONDS = 0.003
"""What is expected to take longer is done in a thread: all other calls wait as long as the event loop works on one. For
less, handing the interpreter over and back costs more than it gives."""

FRAME_SECONDS = 15e-6
TOKEN_SECONDS = 50e-9
"""What composing takes at most for a frame and for each token of its content, where all of it is plain text; measured.

What has to be escaped takes 1 µs a token, and a frame of which all other texts have to be 0.4 ms: what stays on the
loop takes less than a tenth of a second, whatever the frames hold."""

THREAD_LANES = 250
"""From so many lanes on an answer's end, which names each of them in one message, is made in a thread: 6 µs a lane."""

THREADS = 2
"""That all large work has together. One interpreter runs them in turn with the event loop: more would get no more done
and leave the loop less of its time; with one alone, whatever takes long would hold up all that is large."""

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="large")

P = ParamSpec("P")
T = TypeVar("T")


def is_large(lanes: Sequence[Lane]) -> bool:
    """Whether what is made of these lanes is made in a thread."""
    left = LOOP_SECONDS - FRAME_SECONDS * sum([lane.offered for lane in lanes])
    # Where frames alone are too many, no one looks at each of them.
    return left < 0 or TOKEN_SECONDS * sum([each.tokens for lane in lanes for each in lane.candidates]) > left


async def in_thread_if(large: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What ``work`` gives, called in a thread where it is large, else at once."""
    if not large:
        return work(*args, **kwargs)
    called = partial(contextvars.copy_context().run, work, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_threads, called)
