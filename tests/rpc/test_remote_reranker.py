"""A reranker elsewhere is believed only where its answer is one; whatever else it does ends in one plain failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import grpc.aio
import pytest
from contextbroker.v1 import rerank_service_pb2 as pb

from broker.client import Reranker
from broker.core.rerank import Reranked
from broker.rerankers.reranker import RerankFailed
from broker.rpc.remote_reranker import RemoteReranker
from tests.rerankers.values import candidates
from tests.rpc.peers import SAFETY


@pytest.fixture
async def service() -> AsyncIterator[Callable]:
    """Serves whatever a test wants answered; gives the reranker that asks it, and what it was asked."""
    running: list[tuple[grpc.aio.Server, RemoteReranker]] = []

    async def start(answer: Callable) -> tuple[RemoteReranker, list[pb.RerankRequest]]:
        asked: list[pb.RerankRequest] = []

        async def handle(data: bytes, context: grpc.aio.ServicerContext) -> bytes:
            asked.append(pb.RerankRequest.FromString(data))
            return await answer(context)

        server = grpc.aio.server()
        methods = {"Rerank": grpc.unary_unary_rpc_method_handler(handle)}
        handlers = grpc.method_handlers_generic_handler("contextbroker.v1.RerankService", methods)
        server.add_generic_rpc_handlers((handlers,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        running.append((server, RemoteReranker(f"127.0.0.1:{port}")))
        return running[-1][1], asked

    yield start
    for server, reranker in running:
        await reranker.close()
        await server.stop(0)


def saying(*scores: tuple[int, float | None], name: str = "", version: str = "") -> Callable:
    async def answer(_context: object) -> bytes:
        items = [pb.RerankScore(index=index, score=score) for index, score in scores]
        return pb.RerankResponse(scores=items, name=name, version=version).SerializeToString()

    return answer


def giving(data: bytes) -> Callable:
    async def answer(_context: object) -> bytes:
        return data

    return answer


def aborting(code: grpc.StatusCode) -> Callable:
    async def answer(context: grpc.aio.ServicerContext) -> bytes:
        await context.abort(code, "secret")
        raise AssertionError

    return answer


async def test_it_is_asked_and_answers_in_any_order(service: Callable) -> None:
    reranker, asked = await service(saying((2, 0.5), (0, -1.0), (1, None), name="bge", version="v2"))
    answer = await reranker.score("why", candidates("a", "b", "c", title="T"), SAFETY)
    assert answer == Reranked((-1.0, None, 0.5), "bge v2")
    (request,) = asked
    assert request.question == "why"
    assert [(one.index, one.title, one.content) for one in request.candidates] == [
        (0, "T", "a"),
        (1, "T", "b"),
        (2, "T", "c"),
    ]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (giving(b"\xff\xff"), "its answer is broken: "),
        (saying((3, 1.0)), "its answer is broken: scores[0].index: 3 is not one of 3 candidates"),
        (saying((1, 1.0), (1, 1.0)), "its answer is broken: scores[1].index: 1 comes twice"),
        (giving(b"\x12" + b"\x80\x80\x20" + b"n" * (512 * 1024)), "it answered RESOURCE_EXHAUSTED"),
        (aborting(grpc.StatusCode.UNAVAILABLE), "it answered UNAVAILABLE"),
        (aborting(grpc.StatusCode.INVALID_ARGUMENT), "it answered INVALID_ARGUMENT"),
        (aborting(grpc.StatusCode.UNAUTHENTICATED), "it answered UNAUTHENTICATED"),
    ],
)
async def test_whatever_else_it_does_is_a_failure_in_our_words(service: Callable, answer: Callable, why: str) -> None:
    reranker, _ = await service(answer)
    with pytest.raises(RerankFailed) as caught:
        await reranker.score("why", candidates("a", "b", "c"), SAFETY)
    assert str(caught.value).startswith(why)
    assert "secret" not in str(caught.value)


async def test_its_deadline_is_told_to_it(service: Callable) -> None:
    remaining = []

    async def answer(context: grpc.aio.ServicerContext) -> bytes:
        remaining.append(context.time_remaining())
        await asyncio.Event().wait()
        raise AssertionError

    reranker, _ = await service(answer)
    with pytest.raises(TimeoutError):
        await reranker.score("why", candidates("a"), 0.5)
    # gRPC sends a deadline in whole units of time, rounded up.
    assert 0 < remaining[0] <= 0.51


async def test_closing_it_while_it_is_asked_is_a_failure_and_no_cancellation(service: Callable) -> None:
    asked = asyncio.Event()

    async def answer(_context: object) -> bytes:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    reranker, _ = await service(answer)
    scoring = asyncio.create_task(reranker.score("why", candidates("a"), SAFETY))
    await asyncio.wait_for(asked.wait(), SAFETY)
    await reranker.close()
    await asyncio.wait({scoring})
    with pytest.raises(RerankFailed):
        scoring.result()
    await reranker.close()


async def test_it_is_reached_through_tls_and_not_believed_without(certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    server = Reranker("mine", lambda question, texts: [float(len(text.content)) for text in texts])
    bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(server.serve("127.0.0.1:0", tls_cert=cert, tls_key=key, on_serving=bound.set_result))
    address = f"localhost:{(await asyncio.wait_for(bound, SAFETY)).rpartition(':')[2]}"
    trusting, plain = RemoteReranker(address, cert.read_bytes()), RemoteReranker(address)
    assert (await trusting.score("why", candidates("a", "bb"), SAFETY)).scores == (1.0, 2.0)
    with pytest.raises(RerankFailed, match="UNAVAILABLE"):
        await plain.score("why", candidates("a"), SAFETY)
    await trusting.close()
    await plain.close()
    await server.stop(grace=0)
    await asyncio.wait_for(serving, SAFETY)
