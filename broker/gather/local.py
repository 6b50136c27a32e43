"""The fabric of one broker: all instances are sessions of this process."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

from msgspec import Struct

from broker.core.scores import ScoreScale
from broker.errors import Aborted, ResourceExhausted
from broker.gather.answer import Answer
from broker.gather.clock import Clock
from broker.gather.fabric import (
    Ending,
    Handle,
    Instance,
    InstanceKey,
    InstanceStatus,
    Push,
    PushKey,
    PushSink,
    Ref,
    Sink,
    stopping,
)
from broker.gather.pushes import Pushes
from broker.gather.quarantine import SitOuts
from broker.gather.registry import Registry
from broker.wire.events import Query

REPLACEMENTS = 3
"""How often a replica may be replaced within :data:`REPLACEMENT_WINDOW`."""
REPLACEMENT_WINDOW = 60.0
"""Seconds."""

_Replica = tuple[str, str, str]


class LocalRef(Struct, frozen=True, gc=False):
    """An instance of this process."""

    key: InstanceKey
    scale: ScoreScale


class _Offered:
    """An instance that can be asked, and when it was last asked."""

    __slots__ = ("instance", "ref", "turn")

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.ref = LocalRef(instance.key, instance.scale)
        self.turn = 0


class LocalFabric:
    """A :class:`~broker.gather.fabric.Fabric` without a network."""

    def __init__(self, clock: Clock, registry: Registry, pushes: Pushes) -> None:
        """Makes a fabric without instances.

        Args:
            clock: Monotonic time; the event loop, outside tests.
            registry: Where providers that attach are made known, and their scales compared.
            pushes: Where pushes wait.
        """
        self._clock = clock
        self._registry = registry
        self._pushes = pushes
        self._sit_outs = SitOuts(clock)
        self._replicas: dict[_Replica, _Offered] = {}
        self._providers: dict[str, dict[InstanceKey, _Offered]] = {}
        self._replacements: dict[_Replica, deque[float]] = {}
        self._answers: set[Answer] = set()
        self._turn = 0
        self._stopping = False
        self._quiet: asyncio.Event | None = None

    def offer(self, instance: Instance, /) -> None:
        """See :meth:`broker.gather.fabric.Fabric.offer`."""
        if self._stopping:
            raise stopping()
        key = instance.key
        replica = (key.tenant, key.provider, key.instance)
        old = self._replicas.get(replica)
        renewed = old is not None and old.instance.renewing
        if old is not None and not renewed:
            self._check_flapping(replica)
        self._registry.attach(key.provider, instance.scale, instance.kinds, replaces=old is not None)
        offered = self._replicas[replica] = _Offered(instance)
        siblings = self._providers.setdefault(key.provider, {})
        siblings[key] = offered
        if old is not None:
            del siblings[old.ref.key]
        if old is not None and renewed:
            offered.turn = old.turn
            old.instance.retire()
        elif old is not None:
            # Taken out and put in again: the dictionary is then in the order of the last replacement.
            times = self._replacements[replica] = self._replacements.pop(replica, deque())
            times.append(self._clock.time())
            # Last: its open queries end now, and may be asked of the new one.
            old.instance.close(Aborted("FENCED", f"a newer session of instance {key.instance!r} took this one's place"))

    def withdraw(self, instance: Instance, /) -> None:
        """See :meth:`broker.gather.fabric.Fabric.withdraw`."""
        key = instance.key
        siblings = self._providers.get(key.provider, {})
        if siblings.pop(key, None) is None:
            return
        del self._replicas[key.tenant, key.provider, key.instance]
        if not siblings:
            del self._providers[key.provider]
        self._registry.detach(key.provider, instance.last_seen)

    def pick(self, provider: str, tried: Collection[Ref], /) -> tuple[LocalRef | None, int]:
        """See :meth:`broker.gather.fabric.Fabric.pick`."""
        best: _Offered | None = None
        least = busy = 0
        for offered in self._providers.get(provider, {}).values():
            if offered.ref in tried:
                continue
            load = offered.instance.in_flight
            busy += load
            if load >= offered.instance.max_in_flight:
                continue
            if best is None or (load, offered.turn) < (least, best.turn):
                best, least = offered, load
        return (None, busy) if best is None else (best.ref, least)

    def ask(self, ref: Ref, query: Query, deadline: float, sink: Sink, /) -> Handle:
        """See :meth:`broker.gather.fabric.Fabric.ask`."""
        answer = Answer(sink, self._answers, self._none_left)
        self._answers.add(answer)
        siblings = self._providers.get(ref.key.provider)
        offered = None if siblings is None else siblings.get(ref.key)
        if offered is None:
            answer.end(Ending.LOST, "the instance was lost before it was asked")
        else:
            self._turn += 1
            offered.turn = self._turn
            answer.instance = offered.instance.ask(query, deadline, answer)
        # The asker is about to get its handle: what came early follows once it has it.
        if answer.early:
            self._clock.call_soon(answer.flush)
        else:
            answer.early = None
        return answer

    def hold(self, key: PushKey, push: Push, ttl: float, /) -> None:
        """See :meth:`broker.gather.fabric.Fabric.hold`."""
        self._registry.check_scale(key.provider, push.scale)
        self._pushes.hold(key, push, ttl)

    def expect(self, key: PushKey, sink: PushSink, /) -> None:
        """See :meth:`broker.gather.fabric.Fabric.expect`."""
        self._pushes.expect(key, sink)

    def unexpect(self, key: PushKey, /) -> None:
        """See :meth:`broker.gather.fabric.Fabric.unexpect`."""
        self._pushes.unexpect(key)

    def quarantine(self, provider: str, seconds: float, /) -> None:
        """See :meth:`broker.gather.fabric.Fabric.quarantine`."""
        self._sit_outs.set(provider, seconds)

    def release(self, provider: str, /) -> None:
        """See :meth:`broker.gather.fabric.Fabric.release`."""
        self._sit_outs.lift(provider)

    def quarantined(self, provider: str, /) -> float:
        """See :meth:`broker.gather.fabric.Fabric.quarantined`."""
        return self._sit_outs.remaining(provider) if self._sit_outs.until else 0.0

    def instances(self) -> tuple[InstanceStatus, ...]:
        """See :meth:`broker.gather.fabric.Fabric.instances`."""
        return tuple(
            InstanceStatus(
                key=instance.key,
                version=instance.version,
                kinds=instance.kinds,
                scale=instance.scale,
                in_flight=instance.in_flight,
                max_in_flight=instance.max_in_flight,
                last_seen=instance.last_seen,
            )
            for instance in sorted((o.instance for o in self._replicas.values()), key=_place)
        )

    async def start(self) -> None:
        """Nothing has to be made ready."""

    async def stop(self, grace: float, /) -> None:
        """See :meth:`broker.gather.fabric.Fabric.stop`."""
        self._stopping = True
        instances = [offered.instance for offered in self._replicas.values()]
        for instance in instances:
            instance.drain(int(grace * 1000))
        if self._answers:
            self._quiet = asyncio.Event()
            timer = self._clock.call_at(self._clock.time() + grace, self._quiet.set)
            try:
                await self._quiet.wait()
            finally:
                timer.cancel()
        for instance in instances:
            instance.close(stopping())

    def _none_left(self) -> None:
        """No answer is open any more."""
        if self._quiet is not None:
            self._quiet.set()

    def _check_flapping(self, replica: _Replica) -> None:
        start = self._clock.time() - REPLACEMENT_WINDOW
        self._forget_replacements(start)
        times = self._replacements.get(replica, deque())
        while times and times[0] <= start:
            times.popleft()
        if len(times) >= REPLACEMENTS:
            raise ResourceExhausted(
                "FLAPPING",
                f"instance {replica[2]!r} of {replica[1]!r} was replaced {len(times)} times in the last minute; "
                "give each process an instance_id of its own",
                quota="replacements of an instance",
                retry_after=times[0] - start,
            )

    def _forget_replacements(self, start: float) -> None:
        """Drops those whose last was before ``start``; in the order of their last, so that no other is looked at."""
        while self._replacements:
            name, times = next(iter(self._replacements.items()))
            if times[-1] > start:
                return
            del self._replacements[name]


def _place(instance: Instance) -> tuple[str, str, str, str]:
    """As the keys themselves compare, in a fraction of the time."""
    key = instance.key
    return key.tenant, key.provider, key.instance, key.session
