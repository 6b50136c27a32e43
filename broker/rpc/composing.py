"""One Compose call, from its message to its last byte."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping, Sequence

from contextbroker.v1 import context_service_pb2 as pb
from msgspec.structs import replace
from structlog.contextvars import bind_contextvars, unbind_contextvars

from broker.core.compose import compose, finish, overhead
from broker.core.composition import Composition
from broker.core.counting import BYTES_PER_4
from broker.core.handles import RankingPlugin
from broker.core.lanes import Grant, Lane
from broker.core.packing import room
from broker.core.plan import rank_lanes
from broker.core.request import CompositionRequest, Policy
from broker.core.strategies import PluginStrategy
from broker.errors import AlreadyExists, FieldViolation, Unavailable
from broker.gather.tenants import Tenant, Tenants
from broker.rpc import admission, outcome, timing
from broker.rpc.admission import Admitted
from broker.rpc.answering import Answer
from broker.rpc.gathering import gather
from broker.rpc.handlers import Serving, only_message
from broker.rpc.ids import new_id
from broker.rpc.large import THREAD_LANES, in_thread_if, is_large
from broker.rpc.ranking import PluginRanker
from broker.rpc.recording import Recorder
from broker.rpc.reranking import Rerankers
from broker.rpc.snapshots import Snapshots
from broker.rpc.streams import Stream
from broker.rpc.told import composition_told
from broker.settings import Config
from broker.wire.compositions import KINDS, encoded_end, encoded_parts
from broker.wire.encoded_audits import encoded_audit
from broker.wire.requests import ComposeCall
from broker.wire.updates import Accepted, LaneSource, OpenedLane, accepted_message

THREAD_BYTES = 4 * 1024
"""From so many bytes on a request is read in a thread: long lists take a microsecond a byte to check, and inline frames
of a few bytes two."""

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
        self._place = {name: place for place, name in enumerate(policy.lane_order)}
        self._plugins = PluginRanker(policy, config.limits.rank_seconds)
        # Places of their own: those that snapshots hold are never missing where an answer is made.
        self._snapshot_plugins = PluginRanker(policy, config.limits.rank_seconds)
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
        taken = self._serving.quotas.request(stream.caller)
        try:
            self._serving.work()
            read = await in_thread_if(len(data) >= THREAD_BYTES, self._read, data)
            # Frames are values from here on; a caller that reads slowly does not keep their bytes too.
            del data
            await self._answer(stream, read, started)
        finally:
            taken.release()

    async def _answer(self, stream: Stream, read: Read, started: float) -> None:
        # Asked again, since providers were let go when draining began: better no answer than one without them.
        self._refuse_when_draining()
        tenant = self._tenants.of(stream.caller.tenant)
        call, asked, inline = read
        request_id = call.request_id or secrets.token_hex(16)
        stream.noted["request_id"] = request_id
        _reserve(tenant, request_id)
        bind_contextvars(request_id=request_id)
        answer = Answer(stream)
        try:
            admitted = self._admitted(call, inline, tenant, request_id)
            grants = [lane.granted(admitted.query) for lane in admitted.wanted]
            self._serving.quotas.reserve(stream.held, [grant.max_tokens for grant in grants])
            accepted = Accepted(new_id(), request_id, self._opened(admitted, grants))
            answer.accept(accepted_message(accepted).SerializeToString())
            if call.expect_pushes:
                # Whoever pushes may wait to hear that the request was taken.
                await answer.flush()
            await self._composition(stream, answer, tenant, admitted, asked, accepted, started)
        finally:
            answer.close()
            unbind_contextvars("request_id")
            tenant.requests.discard(request_id)

    async def _composition(
        self,
        stream: Stream,
        answer: Answer,
        tenant: Tenant,
        admitted: Admitted,
        asked: pb.ComposeRequest,
        accepted: Accepted,
        started: float,
    ) -> None:
        time, call, composition_id = asyncio.get_running_loop().time, admitted.call, accepted.composition_id
        rerank = admitted.request.rerank
        rerank_seconds = 0.0 if rerank is None else self._rerankers.seconds(rerank.name)
        answer_by = timing.answer_by(started, stream.deadline, self._config.limits.answer_margin_seconds)
        until = timing.collect_until(started, admitted.collect_seconds, answer_by, rerank_seconds)
        snapshots = self._snapshots(answer, admitted, until, accepted) if call.snapshots else None
        lanes = await gather(stream, answer, tenant, admitted, until, snapshots, self._serving.observing)
        lanes += admitted.inline
        gathered = time()
        stream.held.settle()
        failure = outcome.failure(lanes, call.required_providers, admitted.request.partial_lanes)
        if failure is not None:
            stream.noted["composition_id"] = composition_id
            stream.noted["lanes"] = {lane.provider: outcome.ending(lane) for lane in lanes}
            # What was said of the lanes explains it; a status overtakes what still waits to be written.
            await answer.flush()
            raise failure
        large = is_large(lanes)
        with self._serving.observing.tracing.part("compose"):
            composition = await self._composed(
                self._plugins, lanes, call, admitted.request, answer_by, stream.deadline, large
            )
        composition = replace(composition, composition_id=composition_id, request_id=accepted.request_id)
        composed = time()
        parts = await self._told(answer, composition)
        audit = await in_thread_if(len(lanes) >= THREAD_LANES, encoded_audit, composition.summary, composition.usage)
        recording = time()
        wait = timing.record_by(answer_by, stream.deadline)
        state = await self._recorder.record(
            composition, asked, stream.caller, parts, audit, lanes=lanes, until=wait, large=large
        )
        recorded = time() - recording
        composition = replace(composition, audit_state=state)
        await answer.part(encoded_end(composition, audit))
        await answer.flush()
        stages = {
            "gathering": gathered - started,
            "composing": composed - gathered,
            "sending": time() - composed - recorded,
            "recording": recorded,
        }
        composition_told(self._serving.observing, composition, stages, {lane.provider for lane in admitted.inline})

    async def _told(self, answer: Answer, composition: Composition) -> list[bytes]:
        """Tells the parts of a composition but its end; what of them is to be kept on record."""
        kept: list[bytes] = []
        kinds = self._recorder.kinds
        # Each is made when those before are on their way: all may be many; one takes a millisecond or two.
        for part in encoded_parts(composition):
            data = part.joined()
            await answer.part(data)
            if of_kinds := data if len(kinds) == len(KINDS) else part.joined(kinds):
                kept.append(of_kinds)
        return kept

    def _read(self, data: bytes) -> Read:
        call, asked = admission.read(data, self._config)
        return call, asked, admission.inline_lanes(call, self._config)

    def _refuse_when_draining(self) -> None:
        if self._draining:
            text = "this broker was drained or stops, and takes no new requests; ask another one"
            raise Unavailable("DRAINING", text, retry_after=DRAIN_RETRY)

    def _admitted(self, call: ComposeCall, inline: tuple[Lane, ...], tenant: Tenant, request_id: str) -> Admitted:
        """A request that may be served; refuses what cannot come to an answer before any provider is asked.

        Raises:
            BrokerError: What :func:`~broker.rpc.admission.admit` raises.
            InvalidArgument: ``BUDGET_TOO_SMALL``.
            Unavailable: ``NO_PROVIDERS``.
        """
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
        room(admitted.request, overhead(admitted.request, self._policy))
        if not admitted.wanted and not admitted.inline:
            raise outcome.no_lanes(declined=call.no_providers)
        return admitted

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

    def _opened(self, admitted: Admitted, grants: Sequence[Grant]) -> tuple[OpenedLane, ...]:
        inline = admission.inline_grant(self._config)
        lanes = {}
        for lane, grant in zip(admitted.wanted, grants, strict=True):
            source = LaneSource.ATTACHED if lane.push is None else LaneSource.PUSHED
            lanes[lane.provider] = OpenedLane(lane.provider, source, grant.max_frames, grant.max_tokens)
        for name in [lane.provider for lane in admitted.inline]:
            lanes[name] = OpenedLane(name, LaneSource.INLINE, inline.max_frames, inline.max_tokens)
        # The order that the composition has them in.
        names = sorted(lanes)
        if self._place:
            names.sort(key=lambda name: self._place.get(name, len(self._place)))
        return tuple([lanes[name] for name in names])

    def _snapshots(self, answer: Answer, admitted: Admitted, until: float, accepted: Accepted) -> Snapshots:
        call, request = admitted.call, replace(admitted.request, rerank=None)

        async def compose(lanes: Sequence[Lane], large: bool) -> Composition:
            composition = await self._composed(self._snapshot_plugins, lanes, call, request, None, until, large)
            return replace(composition, composition_id=accepted.composition_id, request_id=accepted.request_id)

        return Snapshots(
            answer,
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
