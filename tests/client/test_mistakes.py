"""No argument of the public API, however wrong its type, ends in an error of the inside: it is named and explained."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any

import pytest

from broker.client import (
    BlockingContextClient,
    BrokerError,
    ComposeOptions,
    ContextClient,
    Direction,
    Floor,
    Frame,
    InlineLane,
    InvalidArgument,
    PerProviderQuota,
    Placement,
    PluginStrategy,
    Precomputed,
    Provenance,
    Provider,
    Query,
    ReciprocalRankFusion,
    Rerank,
    Reranker,
    RoundRobin,
    ScoreScale,
    TrustWeighted,
)
from tests.client.fake import SAFETY, FakeBroker

POOL: tuple[Any, ...] = (
    None, True, 7, 1.5, "rrf", b"x", (), [7], ["a"], [None], {}, {"a": 1}, object(), object, RoundRobin, RoundRobin(),
    Floor("a", "unit", 0.5), [Floor("a", "unit", "x")], [Floor(1, "unit", 0.5)], Frame("i", "t", "c"), Placement.FOLD,
    Direction.AS_SENT, Path("x"), ScoreScale(), InlineLane("m"), InlineLane(7), [InlineLane("m", frames=7)],
    [InlineLane("m", frames=[Frame(7, "t", "c")])], [InlineLane("m", scale="unit")], TrustWeighted("x"),
    TrustWeighted({"a": "x"}), TrustWeighted({}, None), ReciprocalRankFusion("60"), ReciprocalRankFusion(60, [1]),
    PerProviderQuota(None), Precomputed(7), Precomputed(("a",)), Precomputed(((1, 2),)), PluginStrategy(7),
    PluginStrategy("p", 7), PluginStrategy("p", {"a": object()}), Rerank(7), Rerank("lexical", "50"),
    Rerank("lexical", min_score="x"), [Frame(7, "t", "c")], [Frame("i", "t", None)], [Frame("i", "t", "c", "high")],
    [Frame("i", "t", "c", kind=7)], [Frame("i", "t", "c", kind=None)], [Frame("i", "t", "c", provenance="x")],
    [Frame("i", "t", "c", provenance=(Provenance(7),))], [Frame("i", "t", "c", token_cost="1")],
    [Frame("i", "t", "c", 10**400)], len, asyncio, lambda: None, 10**400, float("nan"), -1, "\ud800", ["\ud800"],
)  # fmt: skip
"""Values of all sorts. Each is wrong for most arguments, and where it is right the call may go well."""


async def answer(_: Query) -> list[Frame]:
    return []


def score(_: str, texts: Any) -> list[float]:
    return [0.0 for _ in texts]


async def finished(result: Any) -> None:
    if inspect.isawaitable(result):
        await result


def arguments(function: Callable[..., Any]) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = [name for name, one in inspect.signature(function).parameters.items() if one.kind in kinds]
    return [name for name in found if name != "self"]


async def explained(call: Callable[[], Any], argument: str) -> None:
    """Makes a call. It may go well; an error of it names its argument or is the broker's own."""
    raised: Exception | None = None
    try:
        result = call()
        if inspect.isawaitable(result):
            await asyncio.wait_for(result, SAFETY)
    except Exception as error:  # noqa: BLE001 - which one it is is what is tested
        raised = error
    # All others are of the inside; the fake broker's answer to a call that is all right is an error too.
    assert raised is None or isinstance(raised, BrokerError), f"{argument}: {raised!r}"
    if isinstance(raised, InvalidArgument):
        paths = [violation.field for violation in raised.violations]
        assert all(path.startswith((argument, f"render.{argument}", "header")) for path in paths), (argument, paths)
        for inside in ("object has no", "object is not", "argument type", "must be real", "takes ", "'NoneType'"):
            assert inside not in raised.message


CALLS = {"compose": {"goal": "g", "max_tokens": 100}, "push": {"provider": "a", "request_id": "r", "frames": []}}
METHODS = [
    (method, argument)
    for method in ("compose", "push", "providers", "strategies")
    for argument in (
        *arguments(getattr(ContextClient, method)),
        *(ComposeOptions.__annotations__ if method == "compose" else ()),
    )
]


@pytest.fixture(params=[ContextClient, BlockingContextClient], ids=["async", "blocking"])
async def client(request, fake: FakeBroker):
    client = request.param(fake.address)
    yield client
    closing = client.close()
    if closing is not None:
        await closing


@pytest.mark.parametrize(("method", "argument"), METHODS)
async def test_every_argument_of_a_client_is_explained(client, method: str, argument: str):
    function = getattr(client, method)
    for wrong in POOL:
        call = partial(function, **{**CALLS.get(method, {}), argument: wrong})
        await explained(call if isinstance(client, ContextClient) else partial(asyncio.to_thread, call), argument)


async def test_every_argument_of_a_stream_is_explained(fake: FakeBroker):
    async with ContextClient(fake.address) as client:

        async def drained(**options: Any) -> None:
            async for _ in client.stream(**options):
                pass

        for argument in ("goal", "timeout", *ComposeOptions.__annotations__):
            for wrong in POOL:
                await explained(partial(drained, **{"goal": "g", "max_tokens": 100, argument: wrong}), argument)


@pytest.mark.parametrize(
    ("make", "good"),
    [
        (ContextClient, {}),
        (BlockingContextClient, {}),
        (Provider, {"name": "notes", "answer": answer}),
        (Reranker, {"name": "mine", "score": score}),
    ],
)
async def test_every_argument_of_a_constructor_is_explained(make: Callable[..., Any], good: dict):
    for argument in arguments(make):
        for wrong in POOL:
            made: list[Any] = []

            def call(argument: str = argument, wrong: Any = wrong, made: list[Any] = made) -> None:
                made.append(make(**{**good, argument: wrong}))

            await explained(call, argument if argument != "version" or make is Provider else "")
            for one in made:
                if isinstance(one, BlockingContextClient):
                    one.close()


@pytest.mark.parametrize("make", [partial(Provider, "notes", answer), partial(Reranker, "mine", score)])
async def test_every_argument_of_a_service_is_explained(make: Callable[[], Any]):
    service = make()
    right = {
        "address": (str,),
        "tls_ca": (str, Path, type(None)),
        "tls_cert": (str, Path, type(None)),
        "tls_key": (str, Path, type(None)),
        "token": (str, type(None)),
        "token_file": (str, Path, type(None)),
    }
    for argument in arguments(service.serve):
        for wrong in POOL:
            if isinstance(wrong, right.get(argument, ())) or (argument not in right and (callable(wrong) or not wrong)):
                continue
            address = {"address": "127.0.0.1:1"} if argument != "address" else {}
            with pytest.raises(InvalidArgument) as error:
                await service.serve(**{**address, argument: wrong})
            assert error.value.violations[0].field == argument
    for grace in (None, "5", [], object()):
        for call in (service.stop, lambda grace: service.run("127.0.0.1:1", grace=grace)):
            with pytest.raises(InvalidArgument, match="grace: expected a number"):
                await finished(call(grace))


def no_generator(_: Query):
    yield Frame("i", "t", "c")


def plain(_: Query) -> list[Frame]:
    return []


class Searcher:
    async def __call__(self, _: Query) -> list[Frame]:
        return []

    async def method(self, _: Query) -> list[Frame]:
        return []

    def plain(self, _: Query) -> list[Frame]:
        return []


@wraps(answer)
def wrapped(query: Query):
    return answer(query)


async def generator(_: Query):
    yield Frame("i", "t", "c")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (None, "got None"),
        (3, "got int 3"),
        ([], "got a list"),
        (Searcher, "got the class Searcher"),
        (plain, "plain() is a plain function: write `async def`"),
        (no_generator, "no_generator() is a plain function"),
        (Searcher().plain, "plain() is a plain function"),
        (partial(plain), "plain() is a plain function"),
        (len, "len() is a plain function"),
    ],
)
def test_what_cannot_answer_is_refused_when_the_provider_is_made(wrong: Any, said: str):
    with pytest.raises(InvalidArgument, match="expected an async function that returns frames") as error:
        Provider("faq", wrong)
    assert (error.value.reason, error.value.violations[0].field) == ("ANSWER", "answer")
    assert said in error.value.message


@pytest.mark.parametrize(
    "good",
    [answer, generator, wrapped, Searcher(), Searcher().method, partial(answer), lambda query: answer(query)],
    ids=["function", "generator", "wrapped", "object", "method", "partial", "lambda"],
)
async def test_all_that_can_answer_is_taken(fake: FakeBroker, serve, good: Any):
    serve(Provider("faq", good), fake.address)
    session = await fake.attached()
    await session.ask()
    assert (await session.answer())[1].status == 1


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (None, "the answer must be a list of Frame; got None"),
        (Frame("i", "t", "c"), "the answer must be a list of Frame; got a Frame"),
        ({"id": 1}, "the answer must be a list of Frame; got a dict"),
        ("text", "the answer must be a list of Frame; got str 'text'"),
        ([Frame("i", "t", "c"), {"id": 1}], r"frames[1]: expected a Frame, got a dict"),
        ([Frame("i", "t", "c"), Frame(7, "t", "c")], r"frames[1].id: expected text, got int 7"),
        ([Frame("i", "t", "c", kind="poem")], r"frames[0].kind: 'poem' is not a kind; use one of snippet,"),
        ([Frame("i", "t", "c", token_cost=-1)], r"frames[0].token_cost: -1 is out of range"),
    ],
)
async def test_an_answer_that_is_wrong_is_explained_in_the_log(fake: FakeBroker, serve, caplog, returned: Any, said):
    async def wrong(_: Query) -> Any:
        return returned

    serve(Provider("faq", wrong), fake.address)
    session = await fake.attached()
    await session.ask()
    assert (await session.answer())[1].status == 2
    assert said in caplog.text


async def test_a_lambda_that_returns_no_awaitable_is_explained_in_the_log(fake: FakeBroker, serve, caplog):
    serve(Provider("faq", lambda _: []), fake.address)
    session = await fake.attached()
    await session.ask()
    assert (await session.answer())[1].status == 2
    assert "the answer function returned a list; write it with `async def`" in caplog.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_token": 4}, "no option 'max_token'; did you mean 'max_tokens'?"),
        ({"max_tokens": 4, "min_score": 1}, "no option 'min_score'"),
        ({"max_tokens": 4, "zzz": 1}, "there are anchors, as_of,"),
        ({}, "need max_tokens"),
    ],
)
async def test_an_option_that_does_not_exist_or_is_missing_is_named_with_the_nearest(client, options: dict, said: str):
    with pytest.raises(TypeError) as error:
        await finished(client.compose("g", **options))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"strategy": "rrf"}, "strategy: expected a RoundRobin, "),
        ({"strategy": RoundRobin}, "got the class RoundRobin; write RoundRobin(…)"),
        ({"placement": "fold"}, "placement: expected Placement.FOLD, "),
        ({"floors": Floor("a", "unit", 0.5)}, "floors: expected a list of Floor, got a Floor; put it into a list"),
        ({"providers": "files"}, "providers: expected a list of texts, got str 'files'; put it into a list"),
        ({"max_tokens": "400"}, "max_tokens: expected a whole number, got str '400'"),
        ({"collect_timeout": float("inf")}, "collect_timeout: expected at most 315,576,000,000 seconds, got float inf"),
        ({"timeout": float("nan")}, "timeout: expected at most 1e+09 seconds, got float nan"),
    ],
)
async def test_the_likely_mistakes_are_told_with_what_to_do(client, options: dict, said: str):
    with pytest.raises(InvalidArgument) as error:
        await finished(client.compose("g", **{"max_tokens": 400, **options}))
    assert said in error.value.message


async def test_what_can_be_gone_through_once_serves_as_a_list(fake: FakeBroker):
    frames = (Frame(name, "t", "c", 0.5) for name in "ab")
    async with ContextClient(fake.address) as client:
        with pytest.raises(Exception, match="broken"):
            await client.compose(
                "g",
                max_tokens=100,
                providers=(name for name in ("a", "b")),
                inline_lanes=(InlineLane("m", frames=frames) for _ in range(1)),
            )
        assert await client.push("a", "r", (Frame(name, "t", "c", 0.5) for name in "ab")) == 2
    request = fake.requests[0]
    assert list(request.providers) == ["a", "b"]
    assert [frame.id for frame in request.inline_lanes[0].frames] == ["a", "b"]
    assert Provider("notes", answer, kinds=(kind for kind in ("doc",)))._hello.kinds == ("doc",)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"direction": "lower"}, r"direction: expected one of Direction\.HIGHER_IS_BETTER, .*got str 'lower'"),
        ({"direction": None}, r"direction: .*got None"),
        ({"id": 7}, r"expected text, got int 7"),
        ({"min": "0"}, r"min: expected a number, got str '0'"),
        ({"max": None}, r"max: expected a number, got None"),
        ({"max": True}, r"max: expected a number, got True"),
    ],
)
def test_a_scale_of_other_types_is_refused_where_it_is_made(fields: dict, said: str):
    with pytest.raises(TypeError, match=said):
        ScoreScale(**{"id": "bm25", **fields})
