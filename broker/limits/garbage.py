"""When the interpreter looks for garbage that counting references does not free, and at how much of what is alive.

Requests and sessions end without circles: what they held is free at once. The collector is there for the rest, which is
one small circle a call of grpc's own, faults (a traceback holds its frames, and a frame may hold it), and what plugins
and libraries make. Each of its rounds looks at what is alive, about half a microsecond an object, and nobody is
answered meanwhile. As Python sets it up a round over *everything* comes with every few requests under load, and an
attached provider is 170 objects: half a second for five thousand of them, again and again.

So rounds are rarer, and nothing that has come to stay is looked at twice: what is alive once the broker serves, and
whatever else outlives a full round, is frozen. It is still free once nothing refers to it. Only circles of it stay, and
:func:`reclaim` looks for those when memory is short.

This is for a process of the daemon's own: the collector is the whole process's.
"""

from __future__ import annotations

import gc

THRESHOLDS = (5_000, 4, 1)
"""Containers made and not freed until the young are looked at: more than usual requests have at once, who need no round
at all then, and few enough for one to take some 3 ms. Rounds over the young until one over those too that outlived
them, and rounds over these until a full one."""


def settle() -> None:
    """To be called once, when all that stays has been loaded. Idempotent."""
    gc.set_threshold(*THRESHOLDS)
    if _keep not in gc.callbacks:
        gc.callbacks.append(_keep)
    gc.freeze()


def reclaim() -> bool:
    """Looks for garbage in all that is alive, which may take a second; whether there was anything not looked at."""
    if not gc.get_freeze_count():
        return False
    gc.unfreeze()
    gc.collect()
    return True


def _keep(phase: str, info: dict[str, int]) -> None:
    """Freezes what outlived a full round."""
    if phase == "stop" and info["generation"] == len(THRESHOLDS) - 1:
        gc.freeze()
