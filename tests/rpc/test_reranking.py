"""A reranker is asked within its time, over a real connection too, and whatever it does the request has its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc.aio
import pytest
from structlog.testing import capture_logs

from broker.client import Reranker
from broker.config import Config
from broker.core.audited import Reason, RerankOutcome, RerankRecord
from broker.core.composition import Composition
from broker.core.frames import Frame
from broker.core.request import Placement, Rerank
from broker.core.rerank import Reranked
from broker.errors import ConfigError, InvalidArgument
from broker.rerankers.reranker import RerankFailed
from broker.rpc.reranking import Rerankers, Timed, rerankers_of
from broker.rpc.server import Broker
from broker.wire.requests import InlineLane
from tests.plugins.installing import installed
from tests.rerankers.models import make_model
from tests.rerankers.values import candidates
from tests.rpc.peers import SAFETY, Peer, compose_message, frames, ranked, rows

MINE = Rerank("mine")
LOCAL = {"listen": "127.0.0.1:0"}


# --- asking one


class Scorer:
    """A reranker of which the test decides everything."""

    version = "7"

    def __init__(self, score: Callable) -> None:
        self._score = score
        self.asked: list[tuple[str, int, float]] = []

    async def score(self, question, candidates, seconds):
        self.asked.append((question, len(candidates), seconds))
        return await self._score(candidates)

    async def close(self) -> None:
        self.asked.append(("closed", 0, 0.0))


async def never(_candidates: object) -> Reranked:
    await asyncio.Event().wait()
    raise AssertionError


def failing(error: Exception) -> Callable:
    async def fail(_candidates: object) -> Reranked:
        raise error

    return fail


def giving(*scores: float | None) -> Callable:
    async def give(_candidates: object) -> Reranked:
        return Reranked(scores, "8")

    return give


async def rerank(score: Callable, *, seconds: float = SAFETY, left: float | None = None) -> tuple[Reranked, Scorer]:
    scorer = Scorer(score)
    deadline = None if left is None else asyncio.get_running_loop().time() + left
    rerankers = Rerankers({"mine": Timed(scorer, seconds)})
    return await rerankers.rerank(MINE, "why", candidates("a", "b"), deadline), scorer


async def test_its_answer_is_taken_as_it_is() -> None:
    answer, scorer = await rerank(giving(1.0, None), seconds=5.0)
    assert answer == Reranked((1.0, None), "8")
    assert scorer.asked == [("why", 2, 5.0)]


@pytest.mark.parametrize(
    ("score", "why"),
    [
        (failing(RerankFailed("it answered UNAVAILABLE")), "it answered UNAVAILABLE"),
        (failing(ValueError("secret")), "it failed with ValueError"),
        (failing(TimeoutError("secret")), "it did not answer within its own time"),
        (giving(1.0), "it gave 1 scores for 2 candidates"),
        (giving(1.0, 2.0, 3.0), "it gave 3 scores for 2 candidates"),
    ],
)
async def test_a_failure_is_said_and_logged_and_raises_nothing(score: Callable, why: str) -> None:
    with capture_logs() as logs:
        answer, _ = await rerank(score)
    assert answer == Reranked(None, "7", why)
    (logged,) = logs
    assert (logged["log_level"], logged["reranker"], logged["why"]) == ("warning", "mine", why)
    assert (logged["candidates"], "ms" in logged) == (2, True)


async def test_it_has_its_own_time_and_no_more_than_the_callers_deadline_leaves() -> None:
    assert (await rerank(never, seconds=0.01))[0].message == "it did not answer within its own time"
    assert (await rerank(never, left=0.01))[0].message == "it did not answer within the call's deadline"
    answer, scorer = await rerank(never, left=-1.0)
    assert answer.message == "the call's deadline left it no time"
    assert scorer.asked == []


async def test_nothing_is_asked_about_nothing() -> None:
    scorer = Scorer(never)
    answer = await Rerankers({"mine": Timed(scorer, 1.0)}).rerank(MINE, "why", (), None)
    assert (answer, scorer.asked) == (Reranked((), "7"), [])


async def test_a_caller_that_leaves_takes_the_work_with_it() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def wait(_candidates: object) -> Reranked:
        started.set()
        try:
            return await never(None)
        finally:
            cancelled.set()

    asking = asyncio.create_task(rerank(wait))
    await asyncio.wait_for(started.wait(), SAFETY)
    asking.cancel()
    await asyncio.wait({asking})
    assert asking.cancelled()
    assert cancelled.is_set()


# --- which there are


async def test_there_are_the_built_in_one_the_configured_ones_and_the_plugins(tmp_path: Path) -> None:
    class Plugin:
        name, version, description = "plugged", "1", ""

        def scores(self, _question, given):
            return [float(len(one.content)) for one in given]

    config = Config(
        server=LOCAL,
        limits={"rerank_seconds": 3},
        rerankers={
            "far": {"kind": "remote", "address": "127.0.0.1:1", "timeout_seconds": 0.5},
            "near": {"kind": "cross-encoder", "directory": make_model(tmp_path)},
        },
    )
    rerankers = rerankers_of(config, {"plugged": Plugin()})
    assert rerankers.names == {"lexical", "far", "near", "plugged"}
    assert {name: rerankers.seconds(name) for name in rerankers.names} == {
        "lexical": 3,
        "far": 0.5,
        "near": 3,
        "plugged": 3,
    }
    answer = await rerankers.rerank(Rerank("plugged"), "why", candidates("a", "bbb"), None)
    assert answer == Reranked((1.0, 3.0), "1")
    with pytest.raises(ConfigError, match=r"ranking.rerankers: 'far' is the name of another"):
        rerankers_of(config, {"far": Plugin()})
    await rerankers.close()


@pytest.mark.parametrize(
    ("configured", "message"),
    [
        ({"kind": "cross-encoder", "directory": "/nowhere"}, "rerankers.mine: there is no file model.onnx in /nowhere"),
        ({"kind": "remote", "address": "h:1", "tls_ca": "/nowhere/ca.pem"}, "rerankers.mine: tls_ca: /nowhere/ca.pem"),
    ],
)
def test_one_that_cannot_be_loaded_is_an_error_at_the_start(configured: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Broker(Config(server=LOCAL, rerankers={"mine": configured}))


# --- end to end


@pytest.fixture
async def scorer() -> AsyncIterator[Callable]:
    """Starts rerankers of the client library's on real ports; gives their addresses."""
    started: list[tuple[Reranker, asyncio.Task]] = []

    async def start(score: Callable, name: str = "scorer", version: str = "2") -> str:
        reranker = Reranker(name, score, version=version)
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(reranker.serve("127.0.0.1:0", on_serving=address.set_result))
        started.append((reranker, serving))
        return await asyncio.wait_for(address, SAFETY)

    yield start
    for reranker, serving in started:
        await reranker.stop(grace=0)
        await asyncio.wait_for(serving, SAFETY)


@pytest.fixture
async def broker_with(tmp_path: Path) -> AsyncIterator[Callable]:
    """Starts brokers with rerankers configured, each with a peer."""
    running: list[tuple[Broker, grpc.aio.Channel]] = []

    async def start(limits: dict | None = None, **rerankers: dict) -> Peer:
        broker = Broker(Config(server=LOCAL, limits=limits or {}, rerankers=rerankers))
        channel = grpc.aio.insecure_channel(await broker.start(), options=[("grpc.use_local_subchannel_pool", 1)])
        running.append((broker, channel))
        return Peer(channel)

    yield start
    for broker, channel in running:
        await channel.close()
        await broker.stop(grace=1.0)


def remote(address: str, **more: object) -> dict:
    return {"kind": "remote", "address": address, "timeout_seconds": SAFETY, **more}


async def compose(peer: Peer, rerank: Rerank | None, lane: list[Frame], **request: object) -> Composition:
    answer = await peer.compose(
        no_providers=True, inline_lanes=(InlineLane("a", frames=tuple(lane)),), rerank=rerank, **request
    )
    return answer.composition()


def by_content(**scores: float | None) -> Callable:
    async def score(_question, texts):
        return [scores[text.content] for text in texts]

    return score


async def test_c6_each_cutoff_names_its_stage(broker_with, scorer) -> None:
    peer = await broker_with(mine=remote(await scorer(by_content(f=0.96, g=0.84))))
    lane = [Frame("f", "f", "f", 0.40), Frame("g", "g", "g", 0.55)]
    composition = await compose(peer, Rerank("mine", min_score=0.60), lane, placement=Placement.RANK_ORDER)
    assert [placed.frame.id for placed in composition.placed] == ["f", "g"]
    assert composition.summary.rerank == RerankRecord(
        name="mine",
        version="scorer 2",
        candidates=50,
        scored=2,
        unscored=0,
        top_n=None,
        min_score=0.60,
        outcome=RerankOutcome.APPLIED,
    )
    trimmed = await compose(peer, Rerank("mine", top_n=1, min_score=0.9), lane)
    assert rows(trimmed) == {("a", "f"): "", ("a", "g"): Reason.BELOW_RERANK_SCORE}
    assert [(row.frame_id, row.prior_rank, row.rank, row.rerank_score) for row in trimmed.audit] == [
        ("g", 1, 2, "0.83999999999999997"),
        ("f", 2, 1, "0.95999999999999996"),
    ]


async def test_c36_equal_scores_keep_the_order_before(broker_with, scorer) -> None:
    peer = await broker_with(mine=remote(await scorer(by_content(a=0.5, b=0.5, c=0.5))))
    lane = [Frame(name, name, name, score) for name, score in (("a", 0.9), ("b", 0.8), ("c", 0.7))]
    assert ranked(await compose(peer, MINE, lane)) == ["a", "b", "c"]


async def test_the_question_is_the_one_that_providers_are_asked(broker_with, scorer) -> None:
    questions = []

    def plain(question, texts):
        questions.append((question, [(text.title, text.content) for text in texts]))
        return [0.0] * len(texts)

    peer = await broker_with(mine=remote(await scorer(plain)))
    await compose(peer, MINE, frames(("x", 0.5)), goal="the goal")
    await compose(peer, MINE, frames(("x", 0.5)), goal="the goal", query_text="the question")
    assert questions == [("the goal", [("x", "content of x")]), ("the question", [("x", "content of x")])]


async def test_the_built_in_one_needs_no_configuration(peer: Peer) -> None:
    lanes = (
        InlineLane("a", frames=(Frame("far", "far", "of something else", 0.9),)),
        InlineLane("b", frames=(Frame("near", "near", "how heat moves in a wing", 0.1),)),
    )
    asked = {"goal": "heat in a wing", "no_providers": True, "inline_lanes": lanes}
    assert ranked((await peer.compose(**asked)).composition()) == ["far", "near"]
    composition = (await peer.compose(**asked, rerank=Rerank("lexical", top_n=1))).composition()
    assert ranked(composition) == ["near"]
    assert rows(composition)["a", "far"] == Reason.RERANK_TRIMMED
    assert composition.summary.rerank.name == "lexical"


async def test_a_model_in_a_directory_serves(broker_with, tmp_path: Path) -> None:
    directory = make_model(tmp_path / "model")
    peer = await broker_with(words={"kind": "cross-encoder", "directory": str(directory), "timeout_seconds": SAFETY})
    lane = [Frame("jam", "jam", "jam", 0.9), Frame("wave", "wave", "shock wave", 0.1)]
    composition = await compose(peer, Rerank("words"), lane, goal="a shock wave")
    assert ranked(composition) == ["wave", "jam"]
    assert [row.rerank_score for row in composition.audit] == ["0", "2"]
    assert composition.summary.rerank.version.startswith("sha256:")


async def test_it_also_works_where_providers_were_asked_and_frames_are_many(peer: Peer) -> None:
    provider = await peer.attach("files")
    composing = asyncio.create_task(peer.compose(rerank=Rerank("lexical", 100, top_n=5), collect_timeout=SAFETY))
    await provider.answer(frames(*((f"f{i}", i / 1000) for i in range(250))))
    composition = (await composing).composition()
    assert len(composition.placed) == 5
    assert composition.summary.reasons == {"INCLUDED": 5, Reason.RERANK_TRIMMED: 245}


# --- when it does not work


async def test_one_that_is_not_there_leaves_the_order_before(broker_with) -> None:
    peer = await broker_with(mine=remote("127.0.0.1:1"))
    lane = frames(("x", 0.9), ("y", 0.1))
    composition = await compose(peer, Rerank("mine", top_n=1, min_score=1.0), lane)
    assert ranked(composition) == ["x", "y"]
    record = composition.summary.rerank
    assert (record.outcome, record.message) == (RerankOutcome.FALLBACK, "it answered UNAVAILABLE")
    assert all(row.rerank_score == "" and row.prior_rank == 0 for row in composition.audit)


async def test_one_that_fails_leaves_the_order_before_and_its_text_to_itself(broker_with, scorer, caplog) -> None:
    async def fail(_question, _texts):
        raise ValueError("secret")

    peer = await broker_with(mine=remote(await scorer(fail)))
    composition = await compose(peer, MINE, frames(("x", 0.9)))
    assert composition.summary.rerank.message == "it answered INTERNAL"
    assert "secret" in caplog.text


async def test_one_that_is_late_leaves_the_order_before_and_hears_that_no_one_waits(broker_with, scorer) -> None:
    cancelled = asyncio.Event()

    async def hang(_question, _texts):
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    peer = await broker_with(mine=remote(await scorer(hang), timeout_seconds=0.05))
    composition = await compose(peer, MINE, frames(("x", 0.9), ("y", 0.1)))
    assert ranked(composition) == ["x", "y"]
    assert composition.summary.rerank.message == "it did not answer within its own time"
    await asyncio.wait_for(cancelled.wait(), SAFETY)


async def test_a_caller_that_leaves_cancels_it(broker_with, scorer) -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def hang(_question, _texts):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    peer = await broker_with(mine=remote(await scorer(hang)))
    composing = await peer.composing(
        no_providers=True, inline_lanes=(InlineLane("a", frames=tuple(frames(("x", 0.9)))),), rerank=MINE
    )
    await asyncio.wait_for(started.wait(), SAFETY)
    composing.call.cancel()
    await asyncio.wait_for(cancelled.wait(), SAFETY)


async def test_it_is_found_again_when_it_comes_back(broker_with) -> None:
    reranker = Reranker("scorer", by_content(x=1.0, y=2.0))
    lane = [Frame("x", "x", "x", 0.9), Frame("y", "y", "y", 0.1)]

    async def started(address: str) -> tuple[str, asyncio.Task]:
        bound: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(reranker.serve(address, on_serving=bound.set_result))
        return await asyncio.wait_for(bound, SAFETY), serving

    address, serving = await started("127.0.0.1:0")
    peer = await broker_with(mine=remote(address))
    assert ranked(await compose(peer, MINE, lane)) == ["y", "x"]
    await reranker.stop(grace=0)
    await serving
    assert ranked(await compose(peer, MINE, lane)) == ["x", "y"]
    _, serving = await started(address)
    async with asyncio.timeout(SAFETY):
        while ranked(await compose(peer, MINE, lane)) != ["y", "x"]:
            pass
    await reranker.stop(grace=0)
    await serving


async def test_collecting_leaves_it_time_within_the_callers_deadline(broker_with) -> None:
    peer = await broker_with(limits={"rerank_seconds": 1.0})
    provider = await peer.attach("slow")
    composing = asyncio.create_task(peer.compose(deadline=2.5, rerank=Rerank("lexical"), collect_timeout=SAFETY))
    ask = await provider.hear_ask()
    await provider.frames(ask.query_id, frames(("x", 0.9)))
    composition = (await composing).composition()
    assert [lane.end.value for lane in composition.summary.lanes] == ["PARTIAL"]
    assert composition.summary.rerank.outcome is RerankOutcome.APPLIED


# --- what is refused


@pytest.mark.parametrize(
    ("rerank", "field", "reason"),
    [
        (Rerank("nope"), "rerank.name", "RERANKER_UNKNOWN"),
        (Rerank(""), "rerank.name", "RERANKER_UNKNOWN"),
        (Rerank("x" * 64), "rerank.name", "RERANKER_UNKNOWN"),
        (Rerank("lexical", 1001), "rerank.candidates", "RERANK_PARAMS"),
        (Rerank("lexical", 10, top_n=11), "rerank.top_n", "RERANK_PARAMS"),
        (Rerank("lexical", min_score=float("nan")), "rerank.min_rerank_score", "RERANK_PARAMS"),
        (Rerank("lexical", min_score=float("inf")), "rerank.min_rerank_score", "RERANK_PARAMS"),
    ],
)
async def test_what_cannot_be_done_is_refused_before_anyone_is_asked(
    peer: Peer, rerank: Rerank, field: str, reason: str
) -> None:
    error = (await peer.compose(rerank=rerank, no_providers=True)).error
    assert isinstance(error, InvalidArgument)
    assert [(one.field, one.reason) for one in error.violations] == [(field, reason)]


async def test_an_unknown_one_is_told_which_there_are(peer: Peer) -> None:
    error = (await peer.compose(rerank=Rerank("nope"), no_providers=True)).error
    assert "there are lexical" in error.message


async def test_an_unknown_field_of_it_is_refused(peer: Peer) -> None:
    message = compose_message()
    message.rerank.name = "lexical"
    message.rerank.MergeFromString(b"\x48\x01")
    answer = await peer.call("/contextbroker.v1.ContextService/Compose", message.SerializeToString())
    assert (answer.error.reason, answer.error.violations[0].field) == ("UNKNOWN_FIELD", "rerank.9")


@pytest.mark.parametrize(
    ("configured", "message"),
    [
        ({"kind": "remote"}, "needs address"),
        ({"kind": "remote", "address": "http://h:1"}, "expected host:port"),
        ({"kind": "remote", "address": "h:1", "directory": "."}, "directory goes with the kind 'cross-encoder'"),
        ({"kind": "cross-encoder"}, "needs directory"),
        ({"kind": "cross-encoder", "directory": ".", "address": "h:1"}, "address goes with the kind 'remote'"),
        ({"kind": "lexical"}, "'remote' or 'cross-encoder'"),
        ({"kind": "remote", "address": "h:1", "timeout_seconds": 0}, "greater than 0"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(configured: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(server=LOCAL, rerankers={"mine": configured})


@pytest.mark.parametrize("name", ["lexical", "Mine", "", "a b"])
def test_a_name_is_one_that_can_be_named_and_no_others(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Config(server=LOCAL, rerankers={name: {"kind": "remote", "address": "h:1"}})


async def test_an_installed_reranker_serves_once_the_operator_allows_it(tmp_path: Path) -> None:
    lane = (Frame("short", "short", "few", 0.9), Frame("long", "long", "many more words", 0.1))
    asked = {"no_providers": True, "inline_lanes": (InlineLane("a", frames=lane),), "rerank": Rerank("longest")}
    with installed(tmp_path):
        for allowed in ((), ("longest",)):
            broker = Broker(Config(server=LOCAL, ranking={"rerankers": allowed}))
            async with grpc.aio.insecure_channel(await broker.start()) as channel:
                answer = await Peer(channel).compose(**asked)
            await broker.stop(grace=1.0)
            if not allowed:
                assert answer.error.reason == "RERANKER_UNKNOWN"
    composition = answer.composition()
    assert ranked(composition) == ["long", "short"]
    assert (composition.summary.rerank.name, composition.summary.rerank.version) == ("longest", "3")
    assert [row.rerank_score for row in composition.audit] == ["3", "15"]
