"""A process of providers that answer from bytes made beforehand: ``python -m tests.bench.answering JSON``.

The JSON names a load's fields, which providers of it are here, and the addresses to attach to. It says
``{"ready": …}`` on stdout when all of them are welcomed everywhere, and ends with its stdin.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import grpc.aio
from contextbroker.v1 import provider_service_pb2 as pb
from uvloop import new_event_loop

from broker.wire.fields import varint
from tests.bench.loads import Load, provider_batches, provider_name

ATTACH = "/contextbroker.v1.ProviderService/Attach"
_QUERY_ID, _FRAME_BATCH = b"\x0a", b"\x12"


class Answerer:
    """One provider, wherever it is attached."""

    def __init__(self, load: Load, place: int) -> None:
        self._name = provider_name(place)
        self._batches = provider_batches(load, place)

    async def attach(self, channel: grpc.aio.Channel, welcomed: asyncio.Event) -> None:
        """Attaches and answers every query until the connection ends."""
        call = channel.stream_stream(ATTACH)()
        hello = pb.Hello(provider_id=self._name, instance_id="one", max_in_flight=1024)
        await call.write(pb.AttachRequest(hello=hello).SerializeToString())
        while (data := await call.read()) is not grpc.aio.EOF:
            message = pb.AttachResponse.FromString(data)
            if message.HasField("welcome"):
                welcomed.set()
            elif message.HasField("query"):
                for part in self._answer(message.query.query_id):
                    await call.write(part)

    def _answer(self, query_id: str) -> list[bytes]:
        name = query_id.encode()
        head = _QUERY_ID + varint(len(name)) + name
        parts = [b"".join((_FRAME_BATCH, varint(len(head) + len(batch)), head, batch)) for batch in self._batches]
        end = pb.LaneEnd(query_id=query_id, status=pb.LANE_END_STATUS_COMPLETE)
        return [*parts, pb.AttachRequest(lane_end=end).SerializeToString()]


async def _serve(asked: dict[str, Any]) -> None:
    load = Load(**asked["load"])
    answerers = [Answerer(load, place) for place in asked["places"]]
    tasks, waits, channels = [], [], []
    for address in asked["addresses"]:
        for start in range(0, len(answerers), 50):
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]
            channel = grpc.aio.insecure_channel(address, options=options)
            channels.append(channel)
            for answerer in answerers[start : start + 50]:
                welcomed = asyncio.Event()
                tasks.append(asyncio.ensure_future(answerer.attach(channel, welcomed)))
                waits.append(asyncio.ensure_future(welcomed.wait()))
    everyone = asyncio.gather(*waits)
    await asyncio.wait([*tasks, everyone], return_when=asyncio.FIRST_COMPLETED)
    print(json.dumps({"ready": everyone.done()}), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    for channel in channels:
        await channel.close()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_serve(json.loads(sys.argv[1])))
