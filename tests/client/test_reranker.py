"""A function from a question and texts to scores becomes a service that answers well or says what is wrong."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial

import grpc
import grpc.aio
import pytest
from contextbroker.v1 import rerank_service_pb2 as pb
from contextbroker.v1 import rerank_service_pb2_grpc

from broker.client import InvalidArgument, Reranker, RerankText
from broker.wire.reranking import read_rerank_response, rerank_request
from broker.wire.status import error_from_status, read_details
from tests.client.fake import SAFETY

TEXTS = [RerankText("one", "first"), RerankText("two", "second text")]
RERANK = "/contextbroker.v1.RerankService/Rerank"


@pytest.fixture
async def start(_no_task_is_left: None) -> AsyncIterator[Callable]:
    """Starts rerankers, each with a channel to it; all are stopped at the test's end."""
    running: list[tuple[Reranker, asyncio.Task, grpc.aio.Channel]] = []

    async def begin(score: Callable, **options: object) -> grpc.aio.Channel:
        reranker = Reranker("mine", score, **options)
        bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(reranker.serve("127.0.0.1:0", on_serving=bound.set_result))
        channel = grpc.aio.insecure_channel(await asyncio.wait_for(bound, SAFETY))
        running.append((reranker, serving, channel))
        return channel

    yield begin
    for reranker, serving, channel in running:
        await channel.close()
        await reranker.stop(grace=0)
        await asyncio.wait_for(serving, SAFETY)


async def ask(channel: grpc.aio.Channel, data: bytes | None = None):
    data = rerank_request("why", TEXTS) if data is None else data
    return read_rerank_response(await channel.unary_unary(RERANK)(data, timeout=SAFETY), len(TEXTS))


async def refused(call) -> tuple[str, str]:
    """Code and reason of a call's failure."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    details = dict(caught.value.trailing_metadata()).get("grpc-status-details-bin")
    error = error_from_status(caught.value.code().name, details and read_details(details), caught.value.details())
    return error.code, error.reason


async def test_an_async_function_is_called_in_the_loop(start: Callable):
    asked = []

    async def score(question, texts):
        asked.append((question, texts, threading.current_thread() is threading.main_thread()))
        return [0.5, None]

    answer = await ask(await start(score, version="3"))
    assert (answer.scores, answer.name, answer.version) == ((0.5, None), "mine", "3")
    assert asked == [("why", TEXTS, True)]


async def test_a_plain_function_is_called_in_a_thread(start: Callable):
    def score(bonus, question, texts):
        assert threading.current_thread() is not threading.main_thread()
        return [bonus + len(text.content) for text in texts]

    assert (await ask(await start(partial(score, 100)))).scores == (105.0, 111.0)


async def test_a_callable_that_gives_an_awaitable_is_awaited(start: Callable):
    class Model:
        async def __call__(self, question, texts):
            return [1.0, 2.0]

    assert (await ask(await start(Model()))).scores == (1.0, 2.0)


async def test_the_generated_stub_calls_it(start: Callable):
    channel = await start(lambda question, texts: [float(len(text.title)) for text in texts])
    stub = rerank_service_pb2_grpc.RerankServiceStub(channel)
    request = pb.RerankRequest(question="q", candidates=[pb.RerankCandidate(index=0, title="abc")])
    response = await stub.Rerank(request, timeout=SAFETY)
    assert [(score.index, score.score) for score in response.scores] == [(0, 3.0)]


@pytest.mark.parametrize("scores", [[1.0], [1.0, 2.0, 3.0], ["a", "b"], None])
async def test_a_function_that_fails_fails_its_call_alone_and_its_text_stays_here(start: Callable, scores, caplog):
    async def score(question, texts):
        if question == "why":
            return scores
        return [1.0, 2.0]

    channel = await start(score)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(channel)
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert caught.value.details() == "the reranker failed; its log has the particulars"
    assert "could not score a request" in caplog.text
    assert (await ask(channel, rerank_request("again", TEXTS))).scores == (1.0, 2.0)


async def test_what_is_no_request_is_refused_with_its_reason(start: Callable):
    channel = await start(lambda question, texts: [1.0] * len(texts))
    assert await refused(ask(channel, b"\xff\xff")) == ("INVALID_ARGUMENT", "MALFORMED")
    assert await refused(ask(channel, b"")) == ("INVALID_ARGUMENT", "CANDIDATES")
    call = channel.stream_stream(RERANK)(timeout=SAFETY)
    await call.done_writing()
    assert await refused(call.read()) == ("INVALID_ARGUMENT", "NO_MESSAGE")


async def test_no_more_score_at_once_than_were_allowed(start: Callable):
    running, most, go_on = 0, 0, asyncio.Event()

    async def score(question, texts):
        nonlocal running, most
        running += 1
        most = max(most, running)
        if most == 2:
            go_on.set()
        await go_on.wait()
        running -= 1
        return [1.0, 2.0]

    channel = await start(score, max_concurrent=2)
    await asyncio.wait_for(asyncio.gather(*(ask(channel) for _ in range(6))), SAFETY)
    assert most == 2


async def test_a_call_that_is_cancelled_cancels_the_scoring(start: Callable):
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def score(question, texts):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    call = asyncio.create_task(ask(await start(score)))
    await asyncio.wait_for(started.wait(), SAFETY)
    call.cancel()
    await asyncio.wait_for(cancelled.wait(), SAFETY)
    await asyncio.wait({call})


async def test_one_that_serves_cannot_serve_again_and_a_port_is_not_shared():
    reranker, other = (Reranker("mine", lambda question, texts: []) for _ in range(2))
    bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(reranker.serve("127.0.0.1:0", on_serving=bound.set_result))
    address = await asyncio.wait_for(bound, SAFETY)
    with pytest.raises(RuntimeError, match="serving already"):
        await reranker.serve("127.0.0.1:0")
    with pytest.raises(OSError, match="in use"):
        await other.serve(address)
    await other.stop()
    await reranker.stop(grace=0)
    await asyncio.wait_for(serving, SAFETY)
    again = asyncio.create_task(other.serve(address, on_serving=lambda _: asyncio.ensure_future(other.stop(grace=0))))
    await asyncio.wait_for(again, SAFETY)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"name": ""}, "RERANKER_NAME"),
        ({"name": "n" * 65}, "RERANKER_NAME"),
        ({"version": "v" * 65}, "RERANKER_NAME"),
        ({"max_concurrent": 0}, "OUT_OF_RANGE"),
    ],
)
def test_what_it_cannot_be_is_refused(options: dict, reason: str):
    with pytest.raises(InvalidArgument) as caught:
        Reranker(**{"name": "mine", "score": lambda question, texts: [], **options})
    assert caught.value.reason == reason


async def test_certificate_and_key_go_together():
    with pytest.raises(InvalidArgument) as caught:
        await Reranker("mine", lambda question, texts: []).serve("127.0.0.1:0", tls_cert="cert.pem")
    assert caught.value.reason == "TLS_CERT"


PROGRAM = """
from broker.client import Reranker
reranker = Reranker("mine", lambda question, texts: [1.0] * len(texts))
reranker.run("127.0.0.1:0", on_serving=lambda address: print(address, flush=True))
print("done", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_it_in_order(number: signal.Signals):
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, stdout=asyncio.subprocess.PIPE)
    try:
        address = (await asyncio.wait_for(process.stdout.readline(), SAFETY)).decode().strip()
        async with grpc.aio.insecure_channel(address) as channel:
            assert (await ask(channel)).scores == (1.0, 1.0)
        process.send_signal(number)
        assert await asyncio.wait_for(process.stdout.readline(), SAFETY) == b"done\n"
        assert await asyncio.wait_for(process.wait(), SAFETY) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
