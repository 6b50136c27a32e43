"""Promise: what is sought is found on every engine alike; no one waits long for a search, and it comes to its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.records import Filter
from broker.store import frames, searching, statements
from broker.store.engine import Engine
from broker.store.migrating import migrate
from broker.store.sqlite import SqliteEngine
from broker.store.store import Store
from broker.store.values import Mark
from tests.store.values import LANE, KeptFrame, kept

FROM_FILES = (
    KeptFrame("files", "docs/README.md#L1-12", "OVER_BUDGET", "file:///srv/wiki/docs/README.md"),
    KeptFrame("files", "OLDREADME.md#L1", "", "file:///srv/wiki/OLDREADME.md"),
    KeptFrame("tickets", "T-17#2", ""),
    KeptFrame("tickets", "row 4", "", "https://tracker.example/tickets/T-18/"),
    KeptFrame("tickets", "", "INVALID"),
)


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("README.md", True),
        ("docs/README.md", True),
        ("./docs/README.md", True),
        ("/srv/wiki/docs/README.md", True),
        ("file:///srv/wiki/docs/README.md", True),
        ("docs/README.md#L1-12", True),
        ("OLDREADME.md", True),
        ("T-17", True),
        ("T-17#2", True),
        ("row 4", True),
        ("tickets/T-18", True),
        ("readme.md", False),
        ("EADME.md", False),
        ("README", False),
        ("other/README.md", False),
        ("README.md/", True),
        ("%.md", False),
        ("R_ADME.md", False),
        ("#", False),
        ("/", False),
    ],
)
async def test_a_document_is_found_by_the_last_segments_of_its_path_or_an_id(
    engine: Engine, named: str, found: bool
) -> None:
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1", frames=FROM_FILES)), write=True)
    await engine.run(lambda c: statements.record(c, kept("c2")), write=True)
    turn = await engine.run(lambda c: searching.turn(c, "acme", Filter(document=named), None, 9), write=False)
    assert [head.composition_id for head in turn.heads] == (["c1"] if found else [])


async def test_what_else_is_said_of_a_frame_is_said_of_the_documents_frame(engine: Engine) -> None:
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1", frames=FROM_FILES)), write=True)

    async def found(**wanted: Any) -> bool:
        sought = Filter(document="README.md", **wanted)
        return bool((await engine.run(lambda c: searching.turn(c, "acme", sought, None, 9), write=False)).heads)

    assert await found(placed=False)
    assert await found(provider="files", reason="OVER_BUDGET")
    assert not await found(placed=True)
    assert not await found(provider="tickets")


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn looks at four compositions."""
    for name in ("FIRST_TURN", "LEAST"):
        monkeypatch.setattr(searching, name, 4)
    monkeypatch.setattr(searching, "MOST_AT_ONCE", 1)


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("seconds", [0.0, 60.0])
@pytest.mark.parametrize(
    ("wanted", "every"),
    [
        (Filter(), 1),
        (Filter(provider="rare"), 15),
        (Filter(frame_id="rare"), 15),
        (Filter(document="rare.md", provider="rare", placed=True), 15),
        (Filter(frame_id="rare", made_from=10, made_before=20), 15),
        (Filter(frame_id="none"), 0),
    ],
)
async def test_pages_of_a_search_that_has_no_time_come_to_all_that_there_is(
    store: Store, wanted: Filter, every: int, seconds: float
) -> None:
    frames_ = [KeptFrame("rare", "rare", "", "docs/rare.md")]
    rare = {"lanes": [LANE, replace(LANE, provider="rare")], "frames": frames_}
    # Several were made in the same microsecond.
    many = [kept(f"c{n:02}", made_at=n // 3 * 3, **({} if n % 15 else rare)) for n in range(61)]
    await asyncio.gather(*map(store.record, many))
    pages = await _pages(store, wanted, 7, seconds)
    times = range(wanted.made_from or 0, wanted.made_before or 61)
    expected = [f"c{n:02}" for n in range(60, -1, -1) if every and n % every == 0 and n // 3 * 3 in times]
    assert [name for page in pages for name in page] == expected
    # In no time, a page is what one turn came to; with time enough, all but the last are full.
    assert seconds == 0 or all(len(page) == 7 for page in pages[:-1])
    assert seconds > 0 or wanted.made_from is not None or len(pages) >= 61 // 4


async def _pages(store: Store, wanted: Filter, limit: int, seconds: float) -> list[list[str]]:
    pages: list[list[str]] = []
    after: Mark | None = None
    while after is not None or not pages:
        before = after
        page, after = await store.page("acme", wanted, after, limit, seconds)
        assert len(page) <= limit
        assert before is None or after is None or after < before, "a search that stands still never ends"
        pages.append([head.composition_id for head in page])
    return pages


@settings(max_examples=30, deadline=None)
@given(hits=st.lists(st.booleans(), max_size=30), limit=st.integers(1, 4), look_at=st.integers(1, 6))
async def test_turns_of_any_length_find_each_once(hits: list[bool], limit: int, look_at: int) -> None:
    engine = SqliteEngine(None)
    await migrate(engine)
    own = [KeptFrame("a", "sought", "")]
    many = [kept(f"c{n:02}", made_at=n // 2, frames=own if hit else ()) for n, hit in enumerate(hits)]
    await engine.run(lambda c: statements.record(c, *many), write=True)
    found: list[str] = []
    after: Mark | None = None
    while True:
        turn = await engine.run(
            lambda c, after=after: searching.turn(c, "acme", Filter(frame_id="sought"), after, limit, look_at),
            write=False,
        )
        found += [head.composition_id for head in turn.heads]
        if turn.ended_at is None:
            break
        after = turn.ended_at
    await engine.close()
    assert found == [f"c{n:02}" for n, hit in reversed(list(enumerate(hits))) if hit]


@pytest.mark.parametrize("tenant", ["acme", "rival"])
async def test_what_else_is_asked_waits_for_one_turn_and_not_for_the_search(
    engine: Engine, store: Store, monkeypatch: pytest.MonkeyPatch, tenant: str
) -> None:
    await engine.run(lambda c: statements.record(c, *(kept(f"c{n}") for n in range(600))), write=True)
    await store.record(kept("c1", tenant="rival"))
    _unpack_slowly(monkeypatch)
    searching_ = [asyncio.create_task(store.page("acme", Filter(frame_id="f1"), None, 10)) for _ in range(5)]
    waited: list[float] = []
    for _ in range(5):
        await asyncio.sleep(0.02)
        began = time.monotonic()
        assert await store.head(tenant, "c1") is not None
        waited.append(time.monotonic() - began)
    assert not any(task.done() for task in searching_)
    # Of a machine that does other things too, the best of some.
    assert min(waited) < 0.1
    for page, more in await asyncio.gather(*searching_):
        assert (page, more is None) == ([], False)


async def test_a_search_that_must_unpack_many_goes_on_where_its_time_ended(
    engine: Engine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    await engine.run(lambda c: statements.record(c, *(kept(f"c{n:03}", made_at=n) for n in range(200))), write=True)
    looked_at = _unpack_slowly(monkeypatch)
    pages = await _pages(store, Filter(frame_id="f1"), 10, 0.05)
    assert pages == [[]] * len(pages)
    assert (len(pages) > 1, looked_at()) == (True, 200)


def _unpack_slowly(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Of every composition's frames, none is what was sought, and it takes two milliseconds to see that; how many."""
    looked_at = 0

    def slow(data: bytes, wanted: Filter) -> bool:
        nonlocal looked_at
        looked_at += 1
        time.sleep(0.002)
        return False

    monkeypatch.setattr(frames, "offered", slow)
    return lambda: looked_at
