"""What each caller may have of this broker at once, and how often it may call.

Callers are told apart by their tenant; where no credential is asked for, that is one for all. What needs no credential
at all is no tenant's: its calls have a bound of their own, and are counted by the host that they come from, since
whoever opens many connections is one caller still.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from broker.auth.caller import Caller, Role
from broker.auth.methods import OPEN
from broker.errors import ResourceExhausted
from broker.limits.memory import MemoryWatch, memory_limit, resident_bytes
from broker.limits.rates import Rates
from broker.limits.shares import Holding, Shares
from broker.settings import Limits

HELD_PART = 16
"""The part of all memory that may hold encoded bytes, where nothing else is said."""

RESERVED_PART = 8
"""The part of its tenant's share that one request may reserve."""

BYTES_PER_TOKEN = 4

LONGEST_PACE = 1.0
"""Seconds that a refusal waits at most."""

STRANGERS_PACE = 5.0
"""The same, for those who showed no credential that holds."""

_SHED = frozenset({"Compose", "Push"})
"""Methods that bring work which holds memory."""


class Quotas:
    """All limits of a broker that depend on who calls, and on what it already does.

    Attributes:
        held: Bytes of requests and of what was gathered for them.
    """

    def __init__(
        self, limits: Limits, clock: Callable[[], float], *, resident: Callable[[], int] = resident_bytes
    ) -> None:
        """Makes quotas of which nothing is taken.

        Args:
            limits: What the operator allows.
            clock: Monotonic seconds.
            resident: Bytes that the process has now.
        """
        self._clock = clock
        self._lane_bytes = limits.lane_bytes
        self._per_second = limits.tenant_calls_per_second
        self._rates = Rates(limits.tenant_calls_per_second)
        self._refusals = Rates(limits.tenant_refusals_per_second)
        self._strangers = Rates(limits.tenant_refusals_per_second)
        memory = limits.memory_bytes or memory_limit()
        self._memory = MemoryWatch(memory, limits.shed_at, resident)
        held = limits.held_bytes or memory // HELD_PART
        self.held = _shares(limits, "held_bytes", "bytes held for requests", "HELD_BYTES", total=held)
        self._requests = _shares(limits, "requests", "requests in flight", "REQUESTS_IN_FLIGHT")
        self._calls = _shares(limits, "calls", "open calls", "CALLS")
        self._sessions = _shares(limits, "sessions", "sessions", "SESSIONS", retry_after=5.0)
        self._health = _within(limits, "host_health_calls", "health_calls", "health calls", "HEALTH_CALLS")
        self._of_connection = _within(
            limits, "connection_sessions", "sessions", "sessions of this connection", "CONNECTION_SESSIONS"
        )
        self._of_provider = _within(
            limits, "provider_sessions", "sessions", "sessions of this credential", "PROVIDER_SESSIONS"
        )
        self._provider_per_second = limits.provider_calls_per_second
        self._provider_rates = Rates(limits.provider_calls_per_second)

    def configure(self, limits: Limits) -> None:
        """Sets other bounds; what is taken stays taken."""
        self._lane_bytes = limits.lane_bytes
        self._per_second = limits.tenant_calls_per_second
        self._rates.configure(limits.tenant_calls_per_second)
        self._refusals.configure(limits.tenant_refusals_per_second)
        self._strangers.configure(limits.tenant_refusals_per_second)
        memory = limits.memory_bytes or memory_limit()
        self._memory.configure(memory, limits.shed_at)
        held = limits.held_bytes or memory // HELD_PART
        self.held.resize(each=min(limits.tenant_held_bytes, held), total=held)
        for shares, key in ((self._requests, "requests"), (self._calls, "calls"), (self._sessions, "sessions")):
            total = getattr(limits, key)
            shares.resize(each=min(getattr(limits, f"tenant_{key}"), total), total=total)
        self._health.resize(each=min(limits.host_health_calls, limits.health_calls), total=limits.health_calls)
        self._of_connection.resize(each=min(limits.connection_sessions, limits.sessions), total=limits.sessions)
        self._of_provider.resize(each=min(limits.provider_sessions, limits.sessions), total=limits.sessions)
        self._provider_per_second = limits.provider_calls_per_second
        self._provider_rates.configure(limits.provider_calls_per_second)

    def call(self, method: str, caller: Caller) -> Holding | Taken:
        """Lets a call begin, and counts it until it is released: a ``with`` block, too. Nothing of it was read yet.

        Args:
            method: The name under which its handler was registered.
            caller: Who calls.

        Raises:
            ResourceExhausted: It calls too often (``CALL_RATE``), has too many calls (``CALLS``, ``HEALTH_CALLS``) or
                sessions (``SESSIONS``, ``CONNECTION_SESSIONS``, ``PROVIDER_SESSIONS``) open, has too many requests in
                flight for one more (``REQUESTS_IN_FLIGHT``), or the broker is short of memory (``MEMORY``).
        """
        holder = caller.connection if method in OPEN else caller.tenant
        provider = _credential(caller) if caller.subject and Role.PROVIDER in caller.roles else None
        now = self._clock()
        # Its own bound first: what it is refused there takes nothing of what others of its tenant may call.
        if provider is not None and (wait := self._provider_rates.take(provider, now)):
            raise _too_often("provider", self._provider_per_second, wait)
        if wait := self._rates.take(holder, now):
            raise _too_often("tenant", self._per_second, wait)
        if method in _SHED:
            self._memory.check(now)
        if method == "Compose":
            # Taken only once the request is there; a caller that may not have one more need not send it.
            self._requests.check(holder)
        if method in OPEN:
            # Each method for itself: those that watch for ever leave room for those that ask once.
            return _one(self._health, f"{_host(caller.connection)} {method}")
        if method != "Attach":
            return _one(self._calls, holder)
        taken = Taken()
        try:
            taken.one(self._of_connection, caller.connection)
            if provider is not None:
                taken.one(self._of_provider, provider)
            taken.one(self._sessions, holder)
        except ResourceExhausted:
            taken.release()
            raise
        return taken

    def reserve(self, held: Holding, tokens: Iterable[int]) -> None:
        """Has room for what a request's lanes may bring, so that what is let in can be answered.

        A request may reserve a part of its tenant's share at most: even the largest is let in where nothing else runs.
        What it gathers beyond its reservation finds room, or costs the lane that brought it.

        Args:
            held: What the request holds.
            tokens: What each lane was granted.

        Raises:
            ResourceExhausted: There is no room (``HELD_BYTES``).
        """
        most = sum([min(granted * BYTES_PER_TOKEN, self._lane_bytes) for granted in tokens])
        held.reserve(min(most, self.held.each // RESERVED_PART))

    async def pace_stranger(self, connection: str) -> None:
        """As :meth:`pace`, for who showed no credential that holds: counted by host, and for longer.

        Whoever needs no credential to be refused needs nothing but connections, and can have many.
        """
        wait = self._strangers.book(_host(connection), self._clock(), STRANGERS_PACE)
        if wait:
            await asyncio.sleep(wait)

    async def pace(self, holder: str, times: int = 1) -> None:
        """Waits until a refusal may be answered, at most :data:`LONGEST_PACE`.

        A refusal costs the broker a few hundred microseconds. Those who come back at once, as often as they can, are
        kept from taking all of it: their connection takes no more calls than it may have open, and these stay open.

        Args:
            holder: Who was refused: a tenant, a credential, or a connection without one.
            times: How many refusals it counts for, at least 1.
        """
        wait = 0.0
        for _ in range(times):
            wait = self._refusals.book(holder, self._clock(), LONGEST_PACE)
        if wait:
            await asyncio.sleep(wait)

    def figures(self) -> dict[str, float]:
        """How much of what is taken now, by the names of :data:`broker.telemetry.metrics.GAUGES`."""
        return {
            "requests_in_flight": self._requests.used,
            "requests_limit": self._requests.total,
            "sessions": self._sessions.used,
            "sessions_limit": self._sessions.total,
            "held_bytes": self.held.used,
            "held_limit_bytes": self.held.total,
            "memory_bytes": self._memory.resident(),
            "memory_limit_bytes": self._memory.limit,
            "memory_shed_bytes": self._memory.threshold,
        }

    def request(self, caller: Caller) -> Holding:
        """Counts a request until it is released: a ``with`` block, too.

        Raises:
            ResourceExhausted: The caller has too many in flight (``REQUESTS_IN_FLIGHT``).
        """
        return _one(self._requests, caller.tenant)


def spread(error: ResourceExhausted, uniform: Callable[[float, float], float] = random.uniform) -> None:
    """Makes many that were refused at once come back at different moments: not sooner, and up to twice as late."""
    if error.retry_after is not None:
        error.retry_after *= uniform(1.0, 2.0)


def _too_often(whose: str, per_second: int, wait: float) -> ResourceExhausted:
    key = f"limits.{whose}_calls_per_second"
    text = f"more than {per_second} calls in a second ({key}); spread them"
    return ResourceExhausted("CALL_RATE", text, quota=key, retry_after=wait)


def _credential(caller: Caller) -> str:
    return f"{caller.tenant}/{caller.subject}"


def _within(limits: Limits, each: str, total: str, name: str, reason: str) -> Shares:
    """What the key ``each`` allows one holder, of what ``total`` allows all."""
    most: int = getattr(limits, total)
    return Shares(
        name,
        reason,
        each=min(getattr(limits, each), most),
        each_key=f"limits.{each}",
        total=most,
        total_key=f"limits.{total}",
        retry_after=5.0,
    )


def _host(connection: str) -> str:
    """Where a connection comes from: ``ipv4:127.0.0.1`` of ``ipv4:127.0.0.1:40404``."""
    return connection.rpartition(":")[0]


class Taken:
    """One of each of several shares; leaving the ``with`` block gives them back.

    An ``ExitStack`` does as much and takes 0.8 kB, of which every session would have one.
    """

    __slots__ = ("_holdings",)

    def __init__(self) -> None:
        self._holdings: list[Holding] = []

    def one(self, shares: Shares, holder: str) -> None:
        """Takes one more.

        Raises:
            ResourceExhausted: There is none.
        """
        self._holdings.append(_one(shares, holder))

    def release(self) -> None:
        """Gives all of them back."""
        for holding in self._holdings:
            holding.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()


def _one(shares: Shares, holder: str) -> Holding:
    holding = shares.holding(holder)
    holding.take()
    return holding


def _shares(
    limits: Limits, key: str, name: str, reason: str, *, total: int | None = None, retry_after: float = 1.0
) -> Shares:
    """What ``key`` or else ``total`` allows all, and ``tenant_`` and the key one tenant."""
    total = getattr(limits, key) if total is None else total
    each: int = getattr(limits, f"tenant_{key}")
    return Shares(
        name,
        reason,
        each=min(each, total),
        each_key=f"limits.tenant_{key}",
        total=total,
        total_key=f"limits.{key}",
        retry_after=retry_after,
    )
