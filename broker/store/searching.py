"""Searching a tenant's compositions, newest first, a bounded turn at a time.

A search for something rare looks at every composition of the time that is asked about. It does so in turns, each of
which looks at some and says how far it came: whoever else reads the same store is served between two of them, and a
search that has had its time goes on another time where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from msgspec import Struct
from sqlalchemy import Connection, Select, exists, func, or_, select, tuple_

from broker.core.records import Filter
from broker.store import frames
from broker.store.frames import same_text
from broker.store.schema import COMPOSITIONS, HEAD, LANES
from broker.store.values import Head, Mark

PAGE_SECONDS = 1.0
"""How long a page is searched for where its caller can wait."""

TURN_SECONDS = 0.01
"""What a turn may take, about: others wait for it."""

FIRST_TURN = 250
"""Compositions that the first turn of a search looks at."""

LEAST = 16
"""Compositions that every turn may look at, however long they take: a search comes to its end."""

MOST_AT_ONCE = 4
"""How many times as many compositions a turn may look at as the one before."""


class Turn(Struct, frozen=True, gc=False):
    """What one turn of a search came to.

    Attributes:
        heads: What was found, newest first.
        ended_at: The last composition that was looked at; None: there are no others.
        following: Compositions for the next turn to look at, by the time that this one took.
    """

    heads: list[Head]
    ended_at: Mark | None
    following: int


async def page(
    asked: Callable[[Callable[[Connection], Turn]], Awaitable[Turn]],
    tenant: str,
    wanted: Filter,
    after: Mark | None,
    limit: int,
    seconds: float,
) -> tuple[list[Head], Mark | None]:
    """A page of compositions, newest first, and where the next one starts; None: this was the last.

    A page is shorter than ``limit``, or empty, where the search for it has had its time: the next one goes on.

    Args:
        asked: Runs a turn when it is its turn.
        tenant: Whose.
        wanted: Which.
        after: Where the page before ended; None: from the newest.
        limit: How many at most.
        seconds: How long it is searched for, about.
    """
    ends_at = time.monotonic() + seconds
    found: list[Head] = []
    look_at = FIRST_TURN
    while True:
        # One more than fits: whether this is the last page is often known with it.
        most = limit + 1 - len(found)
        done = await asked(partial(turn, tenant=tenant, wanted=wanted, after=after, limit=most, look_at=look_at))
        found += done.heads
        after, look_at = done.ended_at, done.following
        if len(found) > limit:
            del found[limit:]
            after = Mark(found[-1].made_at, found[-1].composition_id)
        if after is None or len(found) == limit or time.monotonic() >= ends_at:
            return found, after


def turn(
    connection: Connection, tenant: str, wanted: Filter, after: Mark | None, limit: int, look_at: int = FIRST_TURN
) -> Turn:
    """Looks at some of a tenant's compositions, newest first.

    Args:
        connection: Where.
        tenant: Whose.
        wanted: Which.
        after: Where the turn before ended; None: from the newest.
        limit: How many are found at most.
        look_at: How many are looked at at most; fewer where frames must be unpacked that take too long.
    """
    began = time.monotonic()
    if connection.dialect.name == "postgresql":
        # Where much was written since it last counted, it takes all that there is for little, and sorts it every turn.
        connection.exec_driver_sql("SET LOCAL enable_sort = off")
    of, key = COMPOSITIONS.c, tuple_(COMPOSITIONS.c.made_at, COMPOSITIONS.c.composition_id)
    within = [of.tenant == tenant]
    if wanted.made_from is not None:
        within.append(of.made_at >= wanted.made_from)
    if wanted.made_before is not None:
        within.append(of.made_at < wanted.made_before)
    if after is not None:
        within.append(key < (after.made_at, same_text(after.composition_id)))
    newest_first = (of.made_at.desc(), of.composition_id.desc())
    last = select(of.made_at, of.composition_id).where(*within).order_by(*newest_first).offset(look_at - 1).limit(1)
    row = connection.execute(last).first()
    ended_at = None if row is None else Mark(*row)
    if ended_at is not None:
        within.append(key >= (ended_at.made_at, ended_at.composition_id))
    # There are no more than these, which a planner is to know: an index has them in this order.
    most = look_at if wanted.about_frames else min(look_at, limit)
    statement = select(*HEAD).where(*within, *_conditions(connection, wanted)).order_by(*newest_first).limit(most)
    found, stopped_at = _found(connection, statement, wanted, limit, began + TURN_SECONDS)
    following = look_at * TURN_SECONDS / max(time.monotonic() - began, 1e-6)
    return Turn(found, stopped_at or ended_at, max(LEAST, min(MOST_AT_ONCE * look_at, round(following))))


def _conditions(connection: Connection, wanted: Filter) -> list[Any]:
    """What is true of every composition that a filter means, but for its time; of frames, by their fingerprints."""
    of, lane = COMPOSITIONS.c, LANES.c
    if wanted.about_frames:
        # Where bytes stand in others, from 1: each engine's own.
        position = func.pg_catalog.position if connection.dialect.name == "postgresql" else func.instr
        return [or_(*(position(of.fingerprints, each) > 0 for each in prints)) for prints in frames.sought(wanted)]
    if wanted.provider:
        own = (lane.tenant == of.tenant, lane.composition_id == of.composition_id)
        return [exists().where(*own, lane.provider == same_text(wanted.provider))]
    return []


def _found(
    connection: Connection, statement: Select[Any], wanted: Filter, limit: int, until: float
) -> tuple[list[Head], Mark | None]:
    """Those of a statement's compositions that a filter means, and where it was left before its end; None: nowhere."""
    if wanted.about_frames:
        statement = statement.add_columns(COMPOSITIONS.c.frames)
    found: list[Head] = []
    # One after the other: how many must be unpacked is known once enough are found.
    streamed = {"stream_results": wanted.about_frames, "max_row_buffer": limit}
    with connection.execute(statement, execution_options=streamed) as rows:
        for row in rows:
            head = Head(*row[: len(HEAD)])
            if not wanted.about_frames or frames.offered(row.frames, wanted):
                found.append(head)
            if len(found) == limit or time.monotonic() > until:
                return found, Mark(head.made_at, head.composition_id)
    return found, None
