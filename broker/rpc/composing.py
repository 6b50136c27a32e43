"""One Compose call, from its message to its last byte."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import ParamSpec, TypeVar

import structlog
from google.protobuf.message import Message

from broker.core.compose import finish, overhead
from broker.core.composition import Composition
from broker.core.lanes import Lane, LaneUpdate
from broker.core.packing import room
from broker.core.plan import rank_lanes
from broker.core.request import Policy
from broker.core.strategies import PluginStrategy
from broker.errors import AlreadyExists, FieldViolation, Unavailable
from broker.gather.collect import Collector
from broker.gather.lane import LieReport
from broker.gather.registry import Registry
from broker.rpc import admission, outcome
from broker.rpc.admission import Admitted
from broker.rpc.handlers import Serving, only_message
from broker.rpc.ranking import PluginRanker
from broker.rpc.reranking import Rerankers
from broker.rpc.streams import Stream
from broker.settings import Config
from broker.wire.compositions import composition_messages
from broker.wire.requests import ComposeCall
from broker.wire.updates import Accepted, LaneSource, OpenedLane, accepted_message, lane_update_message

THREAD_FRAMES = 500
THREAD_TOKENS = 10_000
"""From so many frames or tokens on a composition is made and encoded in a thread, so that other calls are not held up
by it: below them it takes less than 50 ms, whatever the frames hold."""

THREAD_BYTES = 16 * 1024
"""From so many bytes on a request is read in a thread: long lists take a microsecond a byte to check."""

DRAIN_RETRY = 1.0
"""Seconds after which another broker, or this one started again, may take the request."""

log = structlog.get_logger("broker.rpc")

P = ParamSpec("P")
T = TypeVar("T")


class Composer:
    """Serves Compose. A call's state is the local variables of :meth:`serve`."""

    def __init__(
        self,
        *,
        collector: Collector,
        registry: Registry,
        rerankers: Rerankers,
        serving: Serving,
        config: Config,
        policy: Policy,
    ) -> None:
        """Composes what ``collector`` gathers, for requests that ``config`` and ``registry`` allow."""
        self._collector = collector
        self._registry = registry
        self._rerankers = rerankers
        self._serving = serving
        self._config = config
        self._policy = policy
        self._plugins = PluginRanker(policy, config.limits.rank_seconds)
        self._running: set[str] = set()
        self._draining = False

    def drain(self) -> None:
        """Takes no new requests from now on; running ones go on."""
        self._draining = True

    async def serve(self, stream: Stream) -> None:
        """The Compose method; see :data:`broker.rpc.handlers.Method`."""
        self._refuse_when_draining()
        data = await only_message(stream, self._serving)
        started = asyncio.get_running_loop().time()
        self._serving.work()
        call, inline = await _in_thread_if(len(data) >= THREAD_BYTES, self._read, data)
        # Asked again, since providers were let go when draining began: better no answer than one without them.
        self._refuse_when_draining()
        request_id = call.request_id or secrets.token_hex(16)
        with self._reserved(request_id):
            admitted = admission.admit(
                call,
                inline,
                request_id,
                self._config,
                self._registry,
                self._rerankers.names,
                self._policy.plugins,
            )
            self._check_feasible(admitted)
            composition_id = new_id()
            await stream.send(
                accepted_message(Accepted(composition_id, request_id, self._opened(admitted))).SerializeToString()
            )
            answer_by = self._answer_by(started, stream.deadline)
            lanes = [*await self._gather(stream, admitted, self._deadline(started, admitted, answer_by)), *inline]
            gathered = asyncio.get_running_loop().time()
            failure = outcome.failure(lanes, call.required_providers, admitted.request.partial_lanes)
            if failure is not None:
                stream.noted["composition_id"] = composition_id
                stream.noted["lanes"] = {lane.provider: outcome.ending(lane) for lane in lanes}
                # What was said of the lanes explains it; a status overtakes what still waits to be written.
                await stream.flush()
                raise failure
            large = _is_large(lanes)
            composition = replace(
                await self._composed(lanes, admitted, answer_by, stream.deadline, large),
                composition_id=composition_id,
                request_id=request_id,
            )
            composed = asyncio.get_running_loop().time()
            messages = composition_messages(composition)
            while (part := await _in_thread_if(large, _encoded, messages)) is not None:
                await stream.send(part)
            await stream.flush()
            _log(composition, gathered - started, composed - gathered, asyncio.get_running_loop().time() - composed)

    def _read(self, data: bytes) -> tuple[ComposeCall, tuple[Lane, ...]]:
        call = admission.read(data, self._config)
        return call, admission.inline_lanes(call, self._config)

    def _refuse_when_draining(self) -> None:
        if self._draining:
            raise Unavailable(
                "DRAINING", "this broker is stopping; ask again, or ask another one", retry_after=DRAIN_RETRY
            )

    @contextmanager
    def _reserved(self, request_id: str) -> Iterator[None]:
        if request_id in self._running:
            text = "a request of this request_id is running; give each its own, or none"
            raise AlreadyExists(
                "REQUEST_ID_IN_USE", text, violations=[FieldViolation("request_id", "REQUEST_ID_IN_USE", text)]
            )
        self._running.add(request_id)
        try:
            yield
        finally:
            self._running.discard(request_id)

    def _check_feasible(self, admitted: Admitted) -> None:
        """Refuses what cannot come to an answer, before any provider is asked.

        Raises:
            InvalidArgument: ``BUDGET_TOO_SMALL``.
            Unavailable: ``NO_PROVIDERS``.
        """
        room(admitted.request.max_tokens, overhead(admitted.request))
        if not admitted.wanted and not admitted.inline:
            raise outcome.no_lanes(declined=admitted.call.no_providers)

    async def _composed(
        self,
        lanes: Sequence[Lane],
        admitted: Admitted,
        answer_by: float | None,
        deadline: float | None,
        large: bool,
    ) -> Composition:
        strategy, asked, reranked = admitted.request.strategy, admitted.request.rerank, None
        if isinstance(strategy, PluginStrategy):
            plan = await self._plugins.rank(strategy, lanes, admitted.request, deadline)
        else:
            plan = await _in_thread_if(large, rank_lanes, lanes, admitted.request, self._policy)
        if asked is not None:
            question = admitted.call.query_text or admitted.call.goal
            reranked = await self._rerankers.rerank(asked, question, plan.candidates, answer_by)
        return await _in_thread_if(large, finish, plan, reranked)

    def _answer_by(self, started: float, callers: float | None) -> float | None:
        """When everything but the answering must be done, by the caller's own deadline; None where it has none."""
        if callers is None:
            return None
        # A quarter at most: a caller in a hurry wants evidence too.
        return callers - min(self._config.limits.answer_margin_seconds, max(0.0, callers - started) / 4)

    def _deadline(self, started: float, admitted: Admitted, answer_by: float | None) -> float:
        """When collecting ends: the sooner of what the request says and what its caller's own deadline leaves."""
        end = started + admitted.collect_seconds
        if answer_by is None:
            return end
        asked = admitted.request.rerank
        # Half at most is kept for a reranker: without evidence it has nothing to do.
        kept = 0.0 if asked is None else min(self._rerankers.seconds(asked.name), max(0.0, answer_by - started) / 2)
        return min(end, answer_by - kept)

    def _opened(self, admitted: Admitted) -> tuple[OpenedLane, ...]:
        query, inline = admitted.query, admission.inline_grant(self._config)
        lanes = [
            OpenedLane(
                lane.provider,
                LaneSource.ATTACHED if lane.push is None else LaneSource.PUSHED,
                query.max_frames,
                query.max_tokens,
            )
            for lane in admitted.wanted
        ]
        lanes += [
            OpenedLane(lane.provider, LaneSource.INLINE, inline.max_frames, inline.max_tokens)
            for lane in admitted.inline
        ]
        order = {name: place for place, name in enumerate(self._policy.lane_order)}
        return tuple(sorted(lanes, key=lambda lane: (order.get(lane.provider, len(order)), lane.provider)))

    async def _gather(self, stream: Stream, admitted: Admitted, deadline: float) -> list[Lane]:
        """Gathers the lanes and meanwhile tells the caller how they fare; of one lane only the latest is told."""
        updates: dict[str, LaneUpdate] = {}
        changed = asyncio.Event()

        def on_update(update: LaneUpdate) -> None:
            updates[update.provider] = update
            changed.set()

        collecting = asyncio.create_task(
            self._collector.collect(admitted.wanted, admitted.query, deadline, on_update=on_update, on_lie=_report_lie),
            name="rpc-collect",
        )
        collecting.add_done_callback(lambda _: changed.set())
        try:
            while updates or not collecting.done():
                await changed.wait()
                changed.clear()
                while updates:
                    update = updates.pop(next(iter(updates)))
                    await stream.send(lane_update_message(update).SerializeToString())
            return collecting.result()
        finally:
            # Where the caller has left, providers hear of it now and not at the deadline.
            collecting.cancel()
            await asyncio.wait([collecting])


def _is_large(lanes: Sequence[Lane]) -> bool:
    frames = sum(lane.offered for lane in lanes)
    return frames >= THREAD_FRAMES or sum(c.tokens for lane in lanes for c in lane.candidates) >= THREAD_TOKENS


def _encoded(messages: Iterator[Message]) -> bytes | None:
    """The next message; None after the last. Each is made when the one before is on its way: all may be many."""
    message = next(messages, None)
    # Maps have no order of their own: the same composition gives the same bytes in every process.
    return None if message is None else message.SerializeToString(deterministic=True)


async def _in_thread_if(large: bool, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return await asyncio.to_thread(work, *args, **kwargs) if large else work(*args, **kwargs)


def new_id() -> str:
    """An id that sorts by the time it was made at and cannot be guessed: a UUID of version 7 (RFC 9562)."""
    number = int(time.time() * 1000) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def _report_lie(report: LieReport) -> None:
    log.warning(
        "provider lied",
        provider=report.provider,
        instance=None if report.instance is None else report.instance.instance,
        session=None if report.instance is None else report.instance.session,
        violation=report.lie.reason,
        offered=report.offered,
        sits_out_seconds=report.sits_out,
    )


def _log(composition: Composition, gathering: float, composing: float, sending: float) -> None:
    usage, summary = composition.usage.total, composition.summary
    log.info(
        "composition",
        composition_id=composition.composition_id,
        strategy=summary.strategy.name,
        strategy_repairs=list(summary.strategy.repairs),
        reranker=None if summary.rerank is None else f"{summary.rerank.name} {summary.rerank.outcome.value}",
        lanes={lane.provider: lane.end.value for lane in summary.lanes},
        frames_offered=usage.frames_offered,
        frames_placed=usage.frames_placed,
        tokens=summary.budget.used,
        gathering_ms=round(gathering * 1000, 1),
        composing_ms=round(composing * 1000, 1),
        sending_ms=round(sending * 1000, 1),
    )
