"""T5: nothing that a policy is given leads to a score.

What it is given is walked: attributes and properties, closures, defaults, bound objects, and whatever the garbage
collector says that an object refers to. Modules, classes and the globals of functions are not: they lead everywhere,
and a plugin can import them anyway. What a policy could find in the frames above it shows by its answer, which must be
the same where there is no composition above it.
"""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from broker.core.plugins import plugin_order
from broker.core.scores import LocalScore
from broker.gate.checks import Finding
from broker.gate.maps import mapped
from broker.gate.samples import Sample
from broker.gate.subjects import Seen, Subject

_LEADS_EVERYWHERE = (type, types.ModuleType, types.CodeType)
_PLAIN = frozenset({str, bytes, int, bool, type(None)})
"""Types whose values lead nowhere; one of a class made from them may."""

MOST = 200_000
"""Objects after which a walk ends: a policy that is given so much is given too much."""


def nothing_to_reach(subject: Subject, sample: Sample) -> Finding | None:
    """T5: what the policy is given leads to no score, and it answers the same where none is near."""
    # Numbers that stand nowhere else, so that a weight of 0.5 is not taken for a score.
    sample = mapped(sample, (lambda part: (part + 0.01234567) / 1.0345678,), 0)
    seen = subject.seen(sample)
    path = way_to_score(
        (seen.handles, seen.params, seen.columns), {number for lane in sample.lanes for number in lane.numbers}
    )
    if path is not None:
        return Finding(f"what it is given leads to a score: {path}", subject.compose(sample))
    if subject.plugin is not None and subject.seen(sample).order == seen.order != _alone(subject, seen):
        return Finding("it orders differently where no frame above it holds a score", subject.compose(sample))
    return None


def way_to_score(given: object, numbers: set[float]) -> str | None:
    """The way from what a policy is given to the first score found, as a path; None: there is none.

    Args:
        given: Everything that it is given.
        numbers: The scores, as numbers.
    """
    seen: set[int] = set()
    # What is made while walking is kept, so that no two objects ever share an id.
    queue: deque[tuple[str, Any]] = deque([("given", given)])
    kept: list[Any] = []
    while queue and len(kept) < MOST:
        path, found = queue.popleft()
        if isinstance(found, LocalScore) or (isinstance(found, float) and found in numbers):
            return path
        if id(found) in seen or type(found) in _PLAIN or isinstance(found, _LEADS_EVERYWHERE):
            continue
        seen.add(id(found))
        kept.append(found)
        queue.extend(_next(path, found))
    return f"{path}, {MOST} objects on and no end" if queue else None


def _next(path: str, found: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(found, types.FunctionType):
        # Not its globals: they are its module's.
        for place, cell in zip(found.__code__.co_freevars, found.__closure__ or (), strict=True):
            yield f"{path}.<closure {place}>", cell
        yield f"{path}.<defaults>", (found.__defaults__, found.__kwdefaults__, found.__dict__)
        return
    if isinstance(found, types.FrameType):
        yield f"{path}.<locals>", dict(found.f_locals)
        return
    if isinstance(found, types.BuiltinFunctionType):
        # Bound to its object, such as a dictionary's get, or to its module, which leads everywhere.
        yield f"{path}.<self>", found.__self__
        return
    if isinstance(found, dict):
        yield from ((f"{path}[{str(key)[:40]!r}]", value) for key, value in found.items())
    elif isinstance(found, (list, tuple)):
        yield from ((f"{path}[{index}]", value) for index, value in enumerate(found))
    elif type(found).__module__ != "builtins":
        for name in dir(found):
            if not name.startswith("__"):
                try:
                    value = getattr(found, name)
                except Exception:  # noqa: BLE001, S112 - an attribute that cannot be read leads nowhere
                    continue
                yield f"{path}.{name}", value
    yield from ((f"{path}.<{type(one).__name__}>", one) for one in gc.get_referents(found))


def _alone(subject: Subject, seen: Seen) -> Sequence[object] | None:
    """The plugin's answer to the same handles, once every score of the composition is gone."""
    gc.collect()
    assert subject.plugin is not None
    return None if seen.order is None else plugin_order(subject.plugin, seen.handles, seen.params)[0]
