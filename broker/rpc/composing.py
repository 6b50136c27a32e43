"""One Compose call, from its message to its last byte."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Mapping, Sequence

from contextbroker.v1 import context_service_pb2 as pb
from msgspec.structs import replace
from structlog.contextvars import bound_contextvars

from broker.core.compose import compose, finish, overhead
from broker.core.composition import Composition
from broker.core.counting import BYTES_PER_4
from broker.core.handles import RankingPlugin
from broker.core.lanes import Lane
from broker.core.packing import room
from broker.core.plan import rank_lanes
from broker.core.request import CompositionRequest, Policy
from broker.core.strategies import PluginStrategy
from broker.errors import AlreadyExists, FieldViolation, Unavailable
from broker.gather.tenants import Tenant, Tenants
from broker.rpc import admission, outcome
from broker.rpc.admission import Admitted
from broker.rpc.gathering import gather
from broker.rpc.handlers import Serving, only_message
from broker.rpc.large import THREAD_LANES, in_thread_if, is_large
from broker.rpc.ranking import PluginRanker
from broker.rpc.recording import Recorder
from broker.rpc.reranking import Rerankers
from broker.rpc.snapshots import Snapshots
from broker.rpc.streams import Stream
from broker.rpc.told import composition_told
from broker.settings import Config
from broker.wire.compositions import KINDS, encoded_end, encoded_parts, response_of
from broker.wire.encoded_audits import encoded_audit
from broker.wire.requests import ComposeCall
from broker.wire.updates import Accepted, LaneSource, OpenedLane, accepted_message

THREAD_BYTES = 16 * 1024
"""From so many bytes on a request is read in a thread: long lists take a microsecond a byte to check."""

LAST_WORD = 0.03
"""Seconds of the caller's own deadline that are kept to say how an answer ended."""

DRAIN_RETRY = 1.0
"""Seconds after which another broker, or this one started again, may take the request."""

Read = tuple[ComposeCall, pb.ComposeRequest, tuple[Lane, ...]]
"""A request as a value, as it was sent but for its inline lanes, and these."""


class Composer:
    """Serves Compose. A call's state is the local variables of :meth:`serve`."""

    def __init__(
        self,
        *,
        tenants: Tenants,
        rerankers: Rerankers,
        recorder: Recorder,
        serving: Serving,
        config: Config,
        policy: Policy,
    ) -> None:
        """Composes what a caller's tenant gathers, for requests that it and ``config`` allow."""
        self._tenants = tenants
        self._rerankers = rerankers
        self._recorder = recorder
        self._serving = serving
        self._config = config
        self._policy = policy
        self._plugins = PluginRanker(policy, config.limits.rank_seconds)
        # Places of their own: those that snapshots hold are never missing where an answer is made.
        self._snapshot_plugins = PluginRanker(policy, config.limits.rank_seconds)
        self._place = {name: place for place, name in enumerate(policy.lane_order)}
        self._draining = False

    @property
    def plugins(self) -> Mapping[str, RankingPlugin]:
        """The operator's policies that requests may name."""
        return self._policy.plugins

    def drain(self) -> None:
        """Takes no new requests from now on; running ones go on."""
        self._draining = True

    async def serve(self, stream: Stream) -> None:
        """The Compose method; see :data:`broker.rpc.handlers.Method`."""
        self._refuse_when_draining()
        data = await only_message(stream, self._serving)
        started = asyncio.get_running_loop().time()
        with self._serving.quotas.request(stream.caller):
            self._serving.work()
            read = await in_thread_if(len(data) >= THREAD_BYTES, self._read, data)
            # Frames are values from here on; a caller that reads slowly does not keep their bytes too.
            del data
            await self._answer(stream, read, started)

    async def _answer(self, stream: Stream, read: Read, started: float) -> None:
        # Asked again, since providers were let go when draining began: better no answer than one without them.
        self._refuse_when_draining()
        tenant = self._tenants.of(stream.caller.tenant)
        request_id = read[0].request_id or secrets.token_hex(16)
        stream.noted["request_id"] = request_id
        _reserve(tenant, request_id)
        try:
            with bound_contextvars(request_id=request_id):
                await self._composition(stream, tenant, read, request_id, started)
        finally:
            tenant.requests.discard(request_id)

    async def _composition(self, stream: Stream, tenant: Tenant, read: Read, request_id: str, started: float) -> None:
        call, asked, inline = read
        admitted = admission.admit(
            call,
            inline,
            request_id,
            tenant.name,
            self._config,
            tenant.registry,
            self._rerankers.names,
            self._policy,
        )
        self._check_feasible(admitted)
        granted = (lane.granted(admitted.query).max_tokens for lane in admitted.wanted)
        self._serving.quotas.reserve(stream.held, granted)
        composition_id = new_id()
        await stream.send(
            accepted_message(Accepted(composition_id, request_id, self._opened(admitted))).SerializeToString()
        )
        answer_by = self._answer_by(started, stream.deadline)
        until = self._deadline(started, admitted, answer_by)
        snapshots = self._snapshots(stream, admitted, until, composition_id, request_id) if call.snapshots else None
        lanes = [*await gather(stream, tenant, admitted, until, snapshots, self._serving.observing), *inline]
        gathered = asyncio.get_running_loop().time()
        stream.held.settle()
        failure = outcome.failure(lanes, call.required_providers, admitted.request.partial_lanes)
        if failure is not None:
            stream.noted["composition_id"] = composition_id
            stream.noted["lanes"] = {lane.provider: outcome.ending(lane) for lane in lanes}
            # What was said of the lanes explains it; a status overtakes what still waits to be written.
            await stream.flush()
            raise failure
        large = is_large(lanes)
        with self._serving.observing.tracing.part("compose"):
            composed_of = await self._composed(
                self._plugins, lanes, call, admitted.request, answer_by, stream.deadline, large
            )
        composition = replace(composed_of, composition_id=composition_id, request_id=request_id)
        composed = asyncio.get_running_loop().time()
        parts: list[bytes] = []
        kinds = [kind for kind in KINDS if self._recorder.keeps(kind)]
        # Each is made when those before are on their way: all may be many; one takes a few milliseconds at most.
        for part in encoded_parts(composition):
            await stream.send(part.response())
            if kept := part.joined(kinds):
                parts.append(kept)
        audit = await in_thread_if(len(lanes) >= THREAD_LANES, encoded_audit, composition.summary, composition.usage)
        recording = asyncio.get_running_loop().time()
        wait = _record_by(answer_by, stream.deadline)
        state = await self._recorder.record(
            composition, asked, stream.caller, parts, audit, lanes=lanes, until=wait, large=large
        )
        recorded = asyncio.get_running_loop().time() - recording
        composition = replace(composition, audit_state=state)
        await stream.send(response_of(encoded_end(composition, audit)))
        await stream.flush()
        stages = {
            "gathering": gathered - started,
            "composing": composed - gathered,
            "sending": asyncio.get_running_loop().time() - composed - recorded,
            "recording": recorded,
        }
        composition_told(self._serving.observing, composition, stages, {lane.provider for lane in inline})

    def _read(self, data: bytes) -> Read:
        call, asked = admission.read(data, self._config)
        return call, asked, admission.inline_lanes(call, self._config)

    def _refuse_when_draining(self) -> None:
        if self._draining:
            text = "this broker was drained or stops, and takes no new requests; ask another one"
            raise Unavailable("DRAINING", text, retry_after=DRAIN_RETRY)

    def _check_feasible(self, admitted: Admitted) -> None:
        """Refuses what cannot come to an answer, before any provider is asked.

        Raises:
            InvalidArgument: ``BUDGET_TOO_SMALL``.
            Unavailable: ``NO_PROVIDERS``.
        """
        room(admitted.request, overhead(admitted.request, self._policy))
        if not admitted.wanted and not admitted.inline:
            raise outcome.no_lanes(declined=admitted.call.no_providers)

    async def _composed(
        self,
        plugins: PluginRanker,
        lanes: Sequence[Lane],
        call: ComposeCall,
        request: CompositionRequest,
        answer_by: float | None,
        deadline: float | None,
        large: bool,
    ) -> Composition:
        strategy, asked, reranked = request.strategy, request.rerank, None
        # Tokenizers take their time with texts that cost a byte count nothing.
        large = large or request.tokenizer != BYTES_PER_4.name
        if asked is None and not isinstance(strategy, PluginStrategy):
            return await in_thread_if(large, compose, lanes, request, self._policy)
        if isinstance(strategy, PluginStrategy):
            plan = await plugins.rank(strategy, lanes, request, deadline)
        else:
            plan = await in_thread_if(large, rank_lanes, lanes, request, self._policy)
        if asked is not None:
            question = call.query_text or call.goal
            with self._serving.observing.tracing.part("rerank", reranker=asked.name):
                reranked = await self._rerankers.rerank(asked, question, plan.candidates, answer_by)
        return await in_thread_if(large, finish, plan, reranked)

    def _answer_by(self, started: float, callers: float | None) -> float | None:
        """When everything but the answering must be done, by the caller's own deadline; None where it has none."""
        if callers is None:
            return None
        # Two fifths at most: a caller in a hurry wants evidence too, and one that gives 100 ms has 20 of them to spare.
        return callers - min(self._config.limits.answer_margin_seconds, max(0.0, callers - started) * 0.4)

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
        inline = admission.inline_grant(self._config)
        lanes = []
        for lane in admitted.wanted:
            grant = lane.granted(admitted.query)
            source = LaneSource.ATTACHED if lane.push is None else LaneSource.PUSHED
            lanes.append(OpenedLane(lane.provider, source, grant.max_frames, grant.max_tokens))
        lanes += [
            OpenedLane(lane.provider, LaneSource.INLINE, inline.max_frames, inline.max_tokens)
            for lane in admitted.inline
        ]
        last = len(self._place)
        return tuple(sorted(lanes, key=lambda lane: (self._place.get(lane.provider, last), lane.provider)))

    def _snapshots(
        self, stream: Stream, admitted: Admitted, until: float, composition_id: str, request_id: str
    ) -> Snapshots:
        call, request = admitted.call, replace(admitted.request, rerank=None)

        async def compose(lanes: Sequence[Lane], large: bool) -> Composition:
            composition = await self._composed(self._snapshot_plugins, lanes, call, request, None, until, large)
            return replace(composition, composition_id=composition_id, request_id=request_id)

        return Snapshots(
            stream,
            [lane.provider for lane in admitted.wanted],
            admitted.inline,
            until,
            is_answer=lambda lanes: outcome.failure(lanes, call.required_providers, request.partial_lanes) is None,
            compose=compose,
        )


def _reserve(tenant: Tenant, request_id: str) -> None:
    if request_id in tenant.requests:
        text = "a request of this request_id is running; give each its own, or none"
        raise AlreadyExists(
            "REQUEST_ID_IN_USE", text, violations=[FieldViolation("request_id", "REQUEST_ID_IN_USE", text)]
        )
    tenant.requests.add(request_id)


def _record_by(answer_by: float | None, callers: float | None) -> float:
    """Until when a composition may wait for its record: a store that takes its time must not cost the answer itself."""
    if answer_by is None or callers is None:
        return math.inf
    return callers - min(LAST_WORD, (callers - answer_by) / 2)


def new_id() -> str:
    """An id that sorts by the time it was made at and cannot be guessed: a UUID of version 7 (RFC 9562)."""
    above, below = divmod(secrets.randbits(74), 1 << 62)
    number = int(time.time() * 1000) << 80 | 7 << 76 | above << 64 | 2 << 62 | below
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
