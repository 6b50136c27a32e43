"""Promise: rows are inserted all or not at all, in order, however many they are, on every engine."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from broker.store import statements
from broker.store.engine import Engine
from broker.store.inserting import VALUES, insert_all
from broker.store.migrating import migrate
from broker.store.schema import LANES
from tests.store.values import kept

OTHERS = ("COMPLETE", "", 3, 2, 1, 7)
"""The values of a lane behind its provider."""


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, VALUES // 9, VALUES // 9 + 1, 3 * (VALUES // 9)])
async def test_every_row_is_there_once_with_its_own_values(engine: Engine, count: int, short: bool) -> None:
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1", lanes=[])), write=True)
    rows = [("acme", "c1", f"provider-{n:04}", *OTHERS) for n in range(count)]
    await engine.run(lambda c: insert_all(c, LANES, rows, short=short), write=True)
    found = await engine.run(lambda c: c.execute(select(LANES).order_by(LANES.c.provider)).all(), write=False)
    assert [tuple(row) for row in found] == rows


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("place", [0, VALUES // 9 - 1, VALUES // 9])
async def test_one_that_is_there_already_keeps_the_others_out(engine: Engine, place: int, short: bool) -> None:
    await migrate(engine)
    await engine.run(lambda c: statements.record(c, kept("c1", lanes=[])), write=True)
    rows = [("acme", "c1", f"provider-{n:04}", *OTHERS) for n in range(VALUES // 9)]
    rows.insert(place, rows[5])
    with pytest.raises(Exception, match=r"(?i)unique"):
        await engine.run(lambda c: insert_all(c, LANES, rows, short=short), write=True)
    assert await engine.run(lambda c: c.execute(select(LANES)).all(), write=False) == []
