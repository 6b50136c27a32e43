"""The floor: what the broker's topology costs in bare grpc.aio: ``python -m tests.bench.floor``.

Providers attach by bidi streams and are asked all at once; the frames of their batches are cut out as bytes, joined,
and returned in messages of up to a hundred. Nothing is parsed beyond that, checked, ranked, packed, rendered or
recorded. It says ``{"address": …}`` on stdout and ends with its stdin.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections.abc import AsyncIterator

import grpc
import grpc.aio
from contextbroker.v1 import provider_service_pb2 as pb
from uvloop import new_event_loop

from broker.wire import schema

FRAMES = 100
"""Frames in one message of an answer, at most."""


class Gathered:
    """One request's frames while they come in."""

    def __init__(self, lanes: int) -> None:
        self.frames: list[bytes] = []
        self.done = asyncio.Event()
        self._open = lanes

    def ended(self) -> None:
        """A lane has."""
        self._open -= 1
        if not self._open:
            self.done.set()


class Relay:
    """The two methods."""

    def __init__(self) -> None:
        self._sessions: list[asyncio.Queue[bytes]] = []
        self._requests: dict[str, Gathered] = {}
        self._ids = itertools.count()

    async def attach(self, requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext) -> None:
        """A provider's session."""
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        await context.read()
        await context.write(pb.AttachResponse(welcome=pb.Welcome(session_id="s")).SerializeToString())
        self._sessions.append(queue)
        writer = asyncio.ensure_future(self._write(queue, context))
        try:
            while (data := await context.read()) is not grpc.aio.EOF:
                message = schema.AttachRequest.FromString(data)
                for part in message.frame_batch:
                    batch = schema.FrameBatch.FromString(part)
                    self._requests[batch.query_id].frames.extend(batch.frames)
                for part in message.lane_end:
                    self._requests[schema.BatchName.FromString(part).query_id].ended()
        finally:
            self._sessions.remove(queue)
            writer.cancel()

    async def compose(self, data: bytes, context: grpc.aio.ServicerContext) -> None:
        """A caller's question."""
        query_id = str(next(self._ids))
        gathered = self._requests[query_id] = Gathered(len(self._sessions))
        query = pb.AttachResponse(query=pb.Query(query_id=query_id, goal="why", max_frames=1000)).SerializeToString()
        for session in self._sessions:
            session.put_nowait(query)
        await gathered.done.wait()
        del self._requests[query_id]
        for start in range(0, len(gathered.frames), FRAMES):
            batch = schema.PushBatch(frames=gathered.frames[start : start + FRAMES])
            await context.write(batch.SerializeToString())

    async def _write(self, queue: asyncio.Queue[bytes], context: grpc.aio.ServicerContext) -> None:
        while True:
            await context.write(await queue.get())


async def _serve() -> None:
    relay = Relay()
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", -1)])
    provider = {"Attach": grpc.stream_stream_rpc_method_handler(relay.attach)}
    context = {"Compose": grpc.unary_stream_rpc_method_handler(relay.compose)}
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("contextbroker.v1.ProviderService", provider),
            grpc.method_handlers_generic_handler("contextbroker.v1.ContextService", context),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(json.dumps({"address": f"127.0.0.1:{port}"}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(None)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve())
