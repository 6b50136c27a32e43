"""ProviderService: standing sessions and one-shot deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Iterator
from itertools import chain

import grpc
import structlog
from contextbroker.v1 import provider_service_pb2 as pb

from broker.errors import DeadlineExceeded, FailedPrecondition, ResourceExhausted, Unauthenticated
from broker.gather.ageing import Ageing
from broker.gather.fabric import Ending, Push, PushKey, stopping
from broker.gather.pushes import Pushes, Reading
from broker.gather.session import ProviderSession
from broker.gather.tenants import Tenants
from broker.rpc.attaching import Attaching
from broker.rpc.handlers import Serving, first_message, handler, sized
from broker.rpc.streams import Stream
from broker.rpc.validation import violations_of
from broker.settings import Config
from broker.wire import sessions
from broker.wire.batches import batch_size
from broker.wire.pushes import PushHeader, push_size, read_push_request

PROVIDER_SERVICE = pb.DESCRIPTOR.services_by_name["ProviderService"].full_name

DISOWNED = Unauthenticated("CREDENTIALS", "the provider's credential does not hold any more")
"""What lanes hear of a session whose credential expired or was revoked."""

log = structlog.get_logger("broker.rpc")


class ProviderService:
    """What providers call."""

    def __init__(self, *, tenants: Tenants, pushes: Pushes, serving: Serving, config: Config) -> None:
        """Serves into the callers' tenants; ``pushes`` is where pushes that are read take their room."""
        self._tenants = tenants
        self._pushes = pushes
        self._serving = serving
        # Of those that stand, their age and the label under which they are counted.
        self._sessions: dict[ProviderSession, tuple[Ageing, str] | None] = {}
        self._query_ids = _query_ids()
        self.configure(config)

    def configure(self, config: Config) -> None:
        """Serves by another configuration from now on; sessions were told the old limits when they were welcomed."""
        self._server = config.server
        self._limits = limits = config.limits
        self._told = sessions.Limits(limits.max_message_bytes, limits.max_batch_frames, limits.max_frame_bytes)

    def handlers(self) -> grpc.GenericRpcHandler:
        """What serves it."""
        return grpc.method_handlers_generic_handler(
            PROVIDER_SERVICE,
            {
                "Attach": handler("Attach", self._attach, self._serving),
                "Push": handler("Push", self._push, self._serving),
            },
        )

    def close(self) -> None:
        """Ends every session that the fabric does not know of: those before their Hello and those after Detach."""
        for session in list(self._sessions):
            session.close(stopping())

    async def _attach(self, stream: Stream) -> None:
        attaching = Attaching(stream, self._serving, self._told)
        session = ProviderSession(
            fabric=self._tenants.of(stream.caller.tenant).fabric,
            clock=asyncio.get_running_loop(),
            session_id=secrets.token_hex(12),
            new_query_id=self._query_ids.__next__,
            now=time.time,
            notify=attaching.notify,
            tenant=stream.caller.tenant,
        )
        self._sessions[session] = None
        try:
            await attaching.serve(session, self._attached)
        finally:
            if stream.disowned:
                # Not lost: asking another of its instances would be asking someone else.
                session.close(DISOWNED, ending=Ending.FAILED)
            session.close()
            standing = self._sessions.pop(session)
            if standing is not None:
                ageing, counted = standing
                ageing.stop()
                self._serving.observing.metrics.detached(counted)
                self._log("provider gone", session)

    def _attached(self, session: ProviderSession) -> None:
        counted = self._serving.observing.metrics.attached(session.key.provider)
        self._sessions[session] = self._ageing(session), counted
        self._log("provider attached", session)

    def _ageing(self, session: ProviderSession) -> Ageing:
        return Ageing(
            session,
            asyncio.get_running_loop(),
            age=self._server.session_age_seconds,
            overlap=self._server.grace_seconds,
            finish=self._limits.max_collect_seconds,
        )

    async def _push(self, stream: Stream) -> None:
        header = read_push_request(await first_message(stream, self._serving), violations_of)
        if not isinstance(header, PushHeader):
            raise FailedPrecondition("PROTOCOL_ORDER", "a batch came before the header; send the header first")
        self._serving.work()
        stream.claim(header.provider)
        tenant = self._tenants.of(stream.caller.tenant)
        key = PushKey(tenant.name, header.request_id, header.provider)
        self._pushes.check(key)
        with self._pushes.reading(key.tenant) as reading:
            frames = await self._read_batches(stream, reading)
            await stream.confirm()
            # Giving the room back and taking it again happen in one step, so that nothing comes between.
            parts = reading.finish()
            tenant.fabric.hold(key, Push(header.scale, parts), self._limits.push_hold_seconds)
        log.info("push taken", provider=header.provider, frames=frames)
        await stream.send(pb.PushResponse(frames=frames).SerializeToString())

    async def _read_batches(self, stream: Stream, reading: Reading) -> int:
        """Reads batches to the end of the call; how many frames they hold.

        The room that they take is everyone's, so that all must come within the time that a whole push is held for.
        """
        frames = 0
        deadline = asyncio.get_running_loop().time() + self._limits.push_hold_seconds
        while (message := await self._next(stream, deadline)) is not None:
            message, most = sized(message, self._serving), self._limits.lane_frames
            if push_size(message, most) > most:
                raise self._too_many()
            part = read_push_request(message, violations_of)
            if isinstance(part, PushHeader):
                raise FailedPrecondition("PROTOCOL_ORDER", "a second header came; make a call for each delivery")
            size = batch_size(part)
            frames += size
            if frames > most:
                raise self._too_many()
            if size:
                reading.add(part)
        return frames

    def _too_many(self) -> ResourceExhausted:
        text = f"a delivery may hold {self._limits.lane_frames} frames and this one holds more; send the best"
        return ResourceExhausted("PUSH_FRAMES", text, quota="limits.lane_frames")

    async def _next(self, stream: Stream, deadline: float) -> bytes | None:
        # What has come already is given at once, whatever the time: only a time above zero is asked about.
        left = deadline - asyncio.get_running_loop().time()
        if left > 0:
            with contextlib.suppress(TimeoutError):
                return await stream.receive(left)
        raise DeadlineExceeded(
            "PUSH_STALLED",
            f"the delivery was not over within {self._limits.push_hold_seconds:g} s of its header; "
            "send all batches and half-close the call",
        )

    def _log(self, event: str, session: ProviderSession) -> None:
        log.info(
            event,
            provider=session.key.provider,
            instance=session.key.instance,
            session=session.key.session,
            scale=session.scale.id,
            reason=None if session.error is None else session.error.reason,
        )


def _query_ids() -> Iterator[str]:
    """Names that no one can guess, of 96 bits each. Many are drawn at once: the system takes as long for one."""
    return chain.from_iterable(iter(_drawn, None))


def _drawn() -> list[str]:
    drawn = secrets.token_hex(12 * 256)
    return [drawn[start : start + 24] for start in range(0, len(drawn), 24)]
