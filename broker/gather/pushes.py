"""Pushes: one-shot deliveries for one request, which may come before or after the request does.

An early push is held for its time and within its tenant's share of a limit of bytes; the request that names it takes
it, whole and once. One key is pushed once: a second push of it is refused until the first one's time is over, whether
the first is still held or was delivered, so that the answer tells nothing of whether a request waits. (For the same
reason a push that is delivered at once needs room like one that is held.) A key that was pushed costs
:data:`ENTRY_BYTES` of the limit for its time, so that empty pushes are bounded too.
"""

from __future__ import annotations

import heapq
from types import TracebackType
from typing import Self

from broker.errors import AlreadyExists
from broker.gather.clock import Clock, Timer
from broker.gather.fabric import Ending, Push, PushKey, PushSink
from broker.limits.shares import Holding, Shares

ENTRY_BYTES = 512
"""What a key costs beside the bytes of its parts."""


class Pushes:
    """Pushes that are held and requests that wait for one."""

    def __init__(
        self, clock: Clock, *, max_bytes: int = 32 * 1024 * 1024, tenant_bytes: int = 16 * 1024 * 1024
    ) -> None:
        """Makes an empty store that holds at most ``max_bytes``, and ``tenant_bytes`` of one tenant's.

        Those being read are included.
        """
        self._clock = clock
        self._room = Shares(
            "bytes of early pushes",
            "PUSH_BYTES",
            each=min(tenant_bytes, max_bytes),
            each_key="limits.tenant_push_hold_bytes",
            total=max_bytes,
            total_key="limits.push_hold_bytes",
            retry_after=1.0,
        )
        self._held: dict[PushKey, _Held] = {}
        self._expiries: list[tuple[float, PushKey]] = []
        self._waiting: dict[PushKey, _Waiting] = {}
        self._timer: Timer | None = None

    def configure(self, *, max_bytes: int, tenant_bytes: int) -> None:
        """Sets other bounds; see :meth:`broker.limits.shares.Shares.resize`."""
        self._room.resize(each=min(tenant_bytes, max_bytes), total=max_bytes)

    def figures(self) -> dict[str, float]:
        """How much of its room is taken now."""
        return {"push_held_bytes": self._room.used, "push_held_limit_bytes": self._room.total}

    @property
    def bytes(self) -> int:
        """Bytes taken up now."""
        return self._room.used

    @property
    def waiting(self) -> int:
        """Requests' expectations that nothing has come for."""
        return len(self._waiting)

    def reading(self, tenant: str) -> Reading:
        """Room for a push that is being read, so that what many send at once stays within the limit."""
        self._expire()
        return Reading(self._room.holding(tenant))

    def check(self, key: PushKey) -> None:
        """Refuses a repeated push before it is read.

        Raises:
            AlreadyExists: ``PUSH_REPEATED``: the key was pushed and its time is not over.
        """
        self._expire()
        if key in self._held:
            raise AlreadyExists(
                "PUSH_REPEATED",
                f"provider {key.provider!r} has pushed for this request already; send all frames in one push",
            )

    def hold(self, key: PushKey, push: Push, ttl: float) -> None:
        """Delivers a push to whoever expects it, or holds it for ``ttl`` seconds.

        Raises:
            AlreadyExists: ``PUSH_REPEATED``.
            ResourceExhausted: ``PUSH_BYTES``.
        """
        self.check(key)
        size = sum(map(len, push.parts))
        self._room.take(key.tenant, size + ENTRY_BYTES)
        self._held[key] = _Held(push, size)
        heapq.heappush(self._expiries, (self._clock.time() + ttl, key))
        self._arm()
        waiting = self._waiting.get(key)
        if waiting is not None:
            self._claim(key)
            self._hand_over(key, push, waiting)

    def expect(self, key: PushKey, sink: PushSink) -> None:
        """Hands over the key's push, now held or still to come, after this has returned.

        Raises:
            AlreadyExists: ``PUSH_EXPECTED``: another request expects it.
        """
        if key in self._waiting:
            raise AlreadyExists(
                "PUSH_EXPECTED", f"another request named {key.request_id!r} waits for pushes; use a name of its own"
            )
        self._expire()
        waiting = self._waiting[key] = _Waiting(sink)
        push = self._claim(key)
        if push is not None:
            self._clock.call_soon(lambda: self._hand_over(key, push, waiting))

    def unexpect(self, key: PushKey) -> None:
        """Expects it no more; idempotent, and the sink is silent."""
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting.sink = None

    def _claim(self, key: PushKey) -> Push | None:
        """The key's push, now its taker's; its key stays for its time."""
        held = self._held.get(key)
        if held is None:
            return None
        push = held.push
        self._room.give(key.tenant, held.size)
        held.push, held.size = None, 0
        return push

    def _hand_over(self, key: PushKey, push: Push, waiting: _Waiting) -> None:
        # Each call may be the one that makes the request stop listening.
        if waiting.sink is not None:
            waiting.sink.begin(push.scale)
        for number, part in enumerate(push.parts, 1):
            if waiting.sink is not None:
                waiting.sink.batch(part, number == len(push.parts))
        if waiting.sink is not None:
            sink = waiting.sink
            self.unexpect(key)
            sink.end(Ending.COMPLETE, "")

    def _expire(self) -> None:
        now = self._clock.time()
        while self._expiries and self._expiries[0][0] <= now:
            _, key = heapq.heappop(self._expiries)
            self._room.give(key.tenant, self._held.pop(key).size + ENTRY_BYTES)

    def _arm(self) -> None:
        """Has what expires next dropped at its time, even if nothing else happens."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._expiries:
            self._timer = self._clock.call_at(self._expiries[0][0], self._on_time)

    def _on_time(self) -> None:
        self._expire()
        self._arm()


class Reading:
    """A push that is being read; leaving the ``with`` block gives its room back."""

    def __init__(self, room: Holding) -> None:
        self._room = room
        self._parts: list[bytes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.finish()

    def add(self, part: bytes) -> None:
        """Takes one batch.

        Raises:
            ResourceExhausted: ``PUSH_BYTES``.
        """
        self._room.take(len(part))
        self._parts.append(part)

    def finish(self) -> tuple[bytes, ...]:
        """All batches in order; their room is free again, for ``hold`` to take before anything else runs."""
        self._room.release()
        parts, self._parts = tuple(self._parts), []
        return parts


class _Held:
    """A key that was pushed, and the push while no one has taken it."""

    __slots__ = ("push", "size")

    def __init__(self, push: Push, size: int) -> None:
        self.push: Push | None = push
        self.size = size


class _Waiting:
    """A request that expects a push, while it listens."""

    __slots__ = ("sink",)

    def __init__(self, sink: PushSink) -> None:
        self.sink: PushSink | None = sink
