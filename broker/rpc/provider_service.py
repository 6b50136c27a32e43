"""ProviderService: standing sessions and one-shot deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time

import grpc
import structlog
from contextbroker.v1 import provider_service_pb2 as pb

from broker.errors import BrokerError, DeadlineExceeded, FailedPrecondition, ResourceExhausted
from broker.gather.fabric import Fabric, Push, PushKey, stopping
from broker.gather.pushes import Pushes, Reading
from broker.gather.session import ProviderSession
from broker.rpc.handlers import Serving, first_message, handler, sized
from broker.rpc.streams import Stream
from broker.rpc.validation import violations_of
from broker.settings import Limits
from broker.wire import sessions
from broker.wire.batches import batch_size
from broker.wire.events import Welcome
from broker.wire.pushes import PushHeader, read_push_request

PROVIDER_SERVICE = pb.DESCRIPTOR.services_by_name["ProviderService"].full_name

log = structlog.get_logger("broker.rpc")


class ProviderService:
    """What providers call."""

    def __init__(self, *, fabric: Fabric, pushes: Pushes, serving: Serving, limits: Limits) -> None:
        """Serves sessions and pushes into a fabric; ``pushes`` is where those being read take their room."""
        self._fabric = fabric
        self._pushes = pushes
        self._serving = serving
        self._limits = limits
        self._sessions: set[ProviderSession] = set()
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
        session = ProviderSession(
            fabric=self._fabric,
            clock=asyncio.get_running_loop(),
            session_id=secrets.token_hex(12),
            new_query_id=lambda: secrets.token_hex(12),
            now=time.time,
        )
        self._sessions.add(session)
        # Cancelling this task is harmless: it waits for the stream's reader, which goes on by itself.
        listener = asyncio.create_task(self._listen(stream, session), name="rpc-attach")
        listener.add_done_callback(lambda _: session.close())
        welcomed = False
        try:
            while (event := await session.next_event()) is not None:
                if isinstance(event, Welcome):
                    welcomed = True
                    self._log("provider attached", session)
                await stream.send(sessions.attach_response(event, self._told))
            await stream.flush()
        finally:
            session.close()
            self._sessions.discard(session)
            listener.cancel()
            if welcomed:
                self._log("provider gone", session)
        if listener.done() and not listener.cancelled() and (fault := listener.exception()) is not None:
            raise fault
        if session.error is not None:
            raise session.error

    async def _listen(self, stream: Stream, session: ProviderSession) -> None:
        try:
            message: bytes | None = await first_message(stream, self._serving)
            while message is not None:
                session.receive(sessions.read_attach_request(sized(message, self._serving), violations_of))
                message = await stream.receive()
        except BrokerError as error:
            session.close(error)

    async def _push(self, stream: Stream) -> None:
        header = read_push_request(await first_message(stream, self._serving), violations_of)
        if not isinstance(header, PushHeader):
            raise FailedPrecondition("PROTOCOL_ORDER", "a batch came before the header; send the header first")
        self._serving.work()
        key = PushKey("", header.request_id, header.provider)
        self._pushes.check(key)
        with self._pushes.reading() as reading:
            frames = await self._read_batches(stream, reading)
            await stream.confirm()
            # Giving the room back and taking it again happen in one step, so that nothing comes between.
            parts = reading.finish()
            self._fabric.hold(key, Push(header.scale, parts), self._limits.push_hold_seconds)
        log.info("push taken", provider=header.provider, frames=frames)
        await stream.send(pb.PushResponse(frames=frames).SerializeToString())

    async def _read_batches(self, stream: Stream, reading: Reading) -> int:
        """Reads batches to the end of the call; how many frames they hold.

        The room that they take is everyone's, so that all must come within the time that a whole push is held for.
        """
        frames = 0
        deadline = asyncio.get_running_loop().time() + self._limits.push_hold_seconds
        while (message := await self._next(stream, deadline)) is not None:
            part = read_push_request(sized(message, self._serving), violations_of)
            if isinstance(part, PushHeader):
                raise FailedPrecondition("PROTOCOL_ORDER", "a second header came; make a call for each delivery")
            frames += batch_size(part)
            if frames > self._limits.lane_frames:
                raise ResourceExhausted(
                    "PUSH_FRAMES",
                    f"a delivery may hold {self._limits.lane_frames} frames and this one holds more; send the best",
                    quota="limits.lane_frames",
                )
            reading.add(part)
        return frames

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
