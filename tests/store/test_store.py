"""Promise: on every engine, what was kept is found again as it was, by its own tenant alone, until it is forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from broker.core.records import Filter, Observation, ProviderStatistics
from broker.store.engine import Engine, StoreUnavailable
from broker.store.sqlite import SqliteEngine
from broker.store.store import Store
from broker.store.values import KeptLane, Mark
from tests.store.conftest import Now
from tests.store.values import KeptFrame, kept


async def test_what_was_kept_is_found_as_it_was(store: Store) -> None:
    composition = kept("c1", parts=[b"", bytes(range(256)) * 300])
    await store.record(composition)
    found = await store.composition("acme", "c1")
    assert found is not None
    head, parts = found
    assert tuple(parts) == composition.parts
    for name in ("composition_id", "request_id", "subject", "made_at", "strategy", "head"):
        assert getattr(head, name) == getattr(composition, name)


async def test_absent_and_anothers_are_alike(store: Store) -> None:
    await store.record(kept("c1"))
    assert await store.composition("rival", "c1") is None
    assert await store.composition("rival", "c2") is None
    assert await store.head("rival", "c1") is None
    assert (await store.page("rival", Filter(), None, 10)) == ([], None)
    assert await store.attribute("rival", "c1", [Observation("a", "f1", selected=True)], "x") is None
    assert await store.statistics("rival", 0, 2**62) == []


async def test_keeping_twice_keeps_the_first(store: Store) -> None:
    await store.record(kept("c1", parts=[b"first"]))
    await store.record(kept("c1", parts=[b"second"]))
    found = await store.composition("acme", "c1")
    assert found is not None
    assert found[1] == [b"first"]


async def test_keeping_again_among_others_keeps_the_first_and_the_others(store: Store) -> None:
    twice = [kept("c1", parts=[b"first"]), kept("c2"), kept("c1", parts=[b"second"])]
    await asyncio.gather(*map(store.record, twice))
    found = await store.composition("acme", "c1")
    assert found is not None
    assert found[1] == [b"first"]
    assert await store.head("acme", "c2") is not None


async def test_pages_walk_over_all_once_newest_first(store: Store) -> None:
    names = [f"c{n:02}" for n in range(23)]
    # Several were made in the same microsecond.
    await asyncio.gather(*(store.record(kept(name, made_at=n // 3)) for n, name in enumerate(names)))
    seen: list[str] = []
    after: Mark | None = None
    while True:
        page, after = await store.page("acme", Filter(), after, 5)
        seen += [head.composition_id for head in page]
        if after is None:
            break
        assert len(page) == 5
    assert seen == sorted(names, key=lambda name: (int(name[1:]) // 3, name), reverse=True)


FRAMES = st.lists(
    st.builds(
        KeptFrame, st.sampled_from("ab"), st.sampled_from(["x", "y", ""]), st.sampled_from(["", "DUPLICATE", "INVALID"])
    ),
    max_size=4,
)
FILTERS = st.builds(
    Filter,
    made_from=st.none() | st.integers(0, 6),
    made_before=st.none() | st.integers(0, 6),
    provider=st.sampled_from(["", "a", "b"]),
    frame_id=st.sampled_from(["", "x", "y"]),
    placed=st.none() | st.booleans(),
    reason=st.sampled_from(["", "DUPLICATE"]),
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_a_filter_finds_what_a_loop_over_everything_finds(data: st.DataObject) -> None:
    made = Store(SqliteEngine(None), now=lambda: 0.0, wait_seconds=10)
    await made.start()
    try:
        all_frames = data.draw(st.lists(FRAMES, min_size=1, max_size=6))
        for n, frames in enumerate(all_frames):
            providers = sorted({frame.provider for frame in frames})
            lanes = [KeptLane(provider=name, end="COMPLETE") for name in providers]
            await made.record(kept(f"c{n}", made_at=n, lanes=lanes, frames=frames))
        wanted = data.draw(FILTERS)
        expected = [f"c{n}" for n, frames in reversed(list(enumerate(all_frames))) if _meant(wanted, n, frames)]
        found, _ = await made.page("acme", wanted, None, 100)
        assert [head.composition_id for head in found] == expected
    finally:
        await made.close()


def _meant(wanted: Filter, made_at: int, frames: list[KeptFrame]) -> bool:
    if wanted.made_from is not None and made_at < wanted.made_from:
        return False
    if wanted.made_before is not None and made_at >= wanted.made_before:
        return False
    matching = [
        frame
        for frame in frames
        if wanted.provider in ("", frame.provider)
        and wanted.frame_id in ("", frame.frame_id)
        and wanted.reason in ("", frame.reason)
        and wanted.placed in (None, frame.reason == "")
    ]
    says_something = wanted.provider or wanted.frame_id or wanted.reason or wanted.placed is not None
    return bool(matching) or not says_something


async def test_filters_hold_on_every_engine(store: Store) -> None:
    await store.record(kept("c1", made_at=1))
    await store.record(kept("c2", made_at=2, frames=[KeptFrame("b", "f1", "DUPLICATE")]))
    for wanted, names in (
        (Filter(frame_id="f1"), ["c2", "c1"]),
        (Filter(frame_id="f1", placed=True), ["c1"]),
        (Filter(frame_id="f1", placed=False), ["c2"]),
        (Filter(reason="OVER_BUDGET"), ["c1"]),
        (Filter(provider="a"), ["c2", "c1"]),
        (Filter(provider="b", frame_id="f1"), ["c2"]),
        (Filter(made_before=2), ["c1"]),
        (Filter(made_from=2), ["c2"]),
    ):
        found, _ = await store.page("acme", wanted, None, 10)
        assert [head.composition_id for head in found] == names, wanted


async def test_pages_walk_over_all_that_a_filter_finds(store: Store) -> None:
    names = [f"c{n:02}" for n in range(30)]
    frames = [[KeptFrame("a", "f1", "DUPLICATE" if n % 3 else "")] for n in range(30)]
    await asyncio.gather(*(store.record(kept(name, frames=frames[n], made_at=n)) for n, name in enumerate(names)))
    seen: list[str] = []
    after: Mark | None = None
    while True:
        page, after = await store.page("acme", Filter(frame_id="f1", placed=True), after, 3)
        seen += [head.composition_id for head in page]
        if after is None:
            break
    assert seen == names[27::-3]


async def test_observations_add_up_and_name_placed_frames_alone(store: Store) -> None:
    await store.record(kept("c1"))
    chosen = Observation("a", "f1", selected=True)
    left_out = Observation("a", "f2", selected=True)
    assert await store.attribute("acme", "c1", [chosen, left_out], "agent") == [left_out]
    assert (await _one(store)).selected == 0, "all of a report, or nothing of it"
    assert await store.attribute("acme", "c1", [chosen], "agent") == []
    cited = Observation("a", "f1", selected=True, rendered=True, cited=True)
    assert await store.attribute("acme", "c1", [cited], "agent") == []
    assert await store.attribute("acme", "c1", [chosen], "agent") == []
    found = await _one(store)
    assert (found.selected, found.rendered, found.cited) == (1, 1, 1)
    assert found.tokens_per_citation == 7


async def test_statistics_count_each_end_once(store: Store) -> None:
    ends = ["COMPLETE", "EMPTY", "PARTIAL", "TIMED_OUT", "FAILED", "LOST", "REFUSED", "ABSENT", "QUARANTINED"]
    for n, end in enumerate(ends):
        await store.record(kept(f"c{n}", made_at=n, lanes=[KeptLane(provider="a", end=end, offered=n)]))
    assert await store.statistics("acme", 0, len(ends)) == [
        ProviderStatistics(
            provider="a", asked=7, answered=2, late=2, failed=2, lied=1, not_asked=2, offered=sum(range(len(ends)))
        )
    ]
    assert await store.statistics("acme", 0, 0) == []
    assert (await store.statistics("acme", 1, 2))[0].answered == 1


async def test_old_ones_are_forgotten_with_all_that_belongs_to_them(engine: Engine, now: Now) -> None:
    store = Store(engine, now=now, wait_seconds=10, keep_seconds=100, forget_every=0.01)
    await store.start()
    try:
        await store.record(kept("old", made_at=round((now() - 101) * 1e6)))
        await store.record(kept("new", made_at=round((now() - 99) * 1e6)))
        await _until(store, ["new"])
        assert await store.composition("acme", "old") is None
        assert (await _one(store)).asked == 1
    finally:
        await store.close()


async def test_no_more_are_kept_than_may_be(engine: Engine, now: Now) -> None:
    store = Store(engine, now=now, wait_seconds=10, keep_compositions=3, forget_every=0.01)
    await store.start()
    try:
        names = [f"c{n}" for n in range(8)]
        for n, name in enumerate(names):
            await store.record(kept(name, made_at=n))
        await _until(store, names[:-4:-1])
    finally:
        await store.close()


async def test_in_a_flood_no_more_are_kept_either(now: Now) -> None:
    store = Store(SqliteEngine(None), now=now, wait_seconds=10, keep_compositions=100, forget_every=1000)
    await store.start()
    try:
        for n in range(20):
            await asyncio.gather(*(store.record(kept(f"c{n}-{m}", made_at=n)) for m in range(50)))
        async with asyncio.timeout(10):
            while len((await store.page("acme", Filter(), None, 1000))[0]) > 200:
                pass
    finally:
        await store.close()


async def test_what_one_tenant_keeps_pushes_out_nothing_of_anothers(engine: Engine, now: Now) -> None:
    store = Store(engine, now=now, wait_seconds=10, keep_compositions=3, forget_every=0.01)
    await store.start()
    try:
        await store.record(kept("others", tenant="rival", made_at=0))
        for n in range(8):
            await store.record(kept(f"c{n}", made_at=n + 1))
        await _until(store, ["c7", "c6", "c5"])
        assert await store.composition("rival", "others") is not None
    finally:
        await store.close()


async def test_what_one_tenant_asks_at_once_waits_for_itself_and_not_others_for_it(store: Store) -> None:
    await store.record(kept("c1"))
    await store.record(kept("c1", tenant="rival"))
    ended: list[str] = []

    async def ask(tenant: str) -> None:
        await store.page(tenant, Filter(reason="NONE"), None, 10)
        ended.append(tenant)

    asked = [asyncio.create_task(ask("acme")) for _ in range(50)]
    await asyncio.sleep(0)
    await asyncio.gather(*asked, ask("rival"))
    # One of the loud one's may be running, and another may have come to its turn meanwhile.
    assert ended.index("rival") <= 10


async def test_what_cannot_be_kept_is_not_shown_in_the_log(store: Store) -> None:
    secret = "what-was-composed"
    lanes = [KeptLane(provider="a", end=secret), KeptLane(provider="a", end="COMPLETE")]
    with capture_logs() as logs, pytest.raises(StoreUnavailable) as error:
        await store.record(kept("c1", lanes=lanes, parts=[secret.encode()]))
    assert [line["event"] for line in logs] == ["a composition could not be kept"]
    assert secret not in str(logs)
    assert secret not in str(error.value)


async def test_texts_of_peers_name_nothing_and_break_nothing(store: Store) -> None:
    nul = "a\x00"
    await store.record(kept("c1"))
    assert await store.composition("acme", nul) is None
    for wanted in (Filter(provider=nul), Filter(frame_id=nul), Filter(reason=nul), Filter(provider=nul, reason="R")):
        assert await store.page("acme", wanted, None, 10) == ([], None)
    assert await store.page("acme", Filter(), Mark(0, nul), 10) == ([], None)


async def test_texts_of_peers_cannot_break_it(store: Store) -> None:
    nasty = "\x00'; DROP TABLE frames; --\u202e💥"
    await store.record(kept("c1", frames=[KeptFrame("a", nasty, "")]))
    found, _ = await store.page("acme", Filter(frame_id=nasty), None, 10)
    assert [head.composition_id for head in found] == ["c1"]
    assert await store.attribute("acme", "c1", [Observation("a", nasty, selected=True)], nasty) == []


async def test_those_that_wait_together_are_all_kept(store: Store) -> None:
    await asyncio.gather(*(store.record(kept(f"c{n}", made_at=n)) for n in range(300)))
    page, _ = await store.page("acme", Filter(), None, 1000)
    assert len(page) == 300


async def test_one_that_cannot_be_kept_takes_no_other_with_it(store: Store) -> None:
    broken = kept("broken", lanes=[KeptLane(provider="a", end="COMPLETE"), KeptLane(provider="a", end="COMPLETE")])
    results = await asyncio.gather(
        store.record(kept("c1")), store.record(broken), store.record(kept("c2")), return_exceptions=True
    )
    assert results[0] is None
    assert isinstance(results[1], StoreUnavailable)
    assert results[2] is None
    assert await store.head("acme", "broken") is None
    await store.record(kept("c3"))


async def test_closing_commits_what_waits(engine: Engine, now: Callable[[], float]) -> None:
    store = Store(engine, now=now, wait_seconds=10)
    await store.start()
    records = [asyncio.create_task(store.record(kept(f"c{n}"))) for n in range(5)]
    await asyncio.sleep(0)
    await store.close()
    assert await asyncio.gather(*records) == [None] * 5


async def _one(store: Store) -> ProviderStatistics:
    (found,) = await store.statistics("acme", 0, 2**62)
    return found


async def _until(store: Store, names: list[str]) -> None:
    """Returns once exactly these are kept."""
    async with asyncio.timeout(10):
        while True:
            page, _ = await store.page("acme", Filter(), None, 100)
            if [head.composition_id for head in page] == names:
                return
            await asyncio.sleep(0.01)
