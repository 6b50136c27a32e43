"""What is asked of the tables: plain functions of a connection, the same for every engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, Table, and_, delete, exists, func, or_, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from broker.core.records import Filter, Observation, ProviderStatistics, last_segment, path_of
from broker.store.schema import ATTRIBUTIONS, COMPOSITIONS, FRAMES, LANES, PARTS
from broker.store.values import Head, KeptComposition, Mark

NOT_ASKED = ("ABSENT", "QUARANTINED")
LATE = ("TIMED_OUT", "PARTIAL")
ANSWERED = ("COMPLETE", "EMPTY")
FAILED = ("FAILED", "LOST")
LIED = ("REFUSED",)


def record(connection: Connection, kept: KeptComposition) -> None:
    """Keeps a composition. Once it is kept, keeping it again changes nothing."""
    key = {"tenant": kept.tenant, "composition_id": kept.composition_id}
    made = connection.execute(
        _insert(connection, COMPOSITIONS).on_conflict_do_nothing(),
        key
        | {
            "request_id": same_text(kept.request_id),
            "subject": same_text(kept.subject),
            "made_at": kept.made_at,
            "strategy": kept.strategy,
            "head": kept.head,
        },
    )
    if made.rowcount == 0:
        return
    _insert_all(connection, PARTS, [key | {"place": i, "data": part} for i, part in enumerate(kept.parts)])
    _insert_all(
        connection,
        LANES,
        [
            key
            | {
                "provider": lane.provider,
                "made_at": kept.made_at,
                "end": lane.end,
                "violation": lane.violation,
                "offered": lane.offered,
                "admitted": lane.admitted,
                "placed": lane.placed,
                "tokens_placed": lane.tokens_placed,
            }
            for lane in kept.lanes
        ],
    )
    _insert_all(
        connection,
        FRAMES,
        [
            key
            | {
                "place": i,
                "provider": frame.provider,
                "frame_id": same_text(frame.frame_id),
                "reason": frame.reason,
                "source": (path := path_of(same_text(frame.source or frame.frame_id))),
                "document": last_segment(path),
            }
            for i, frame in enumerate(kept.frames)
        ],
    )


def head(connection: Connection, tenant: str, composition_id: str) -> Head | None:
    """A composition without its parts; None: the tenant has none of that id."""
    named = COMPOSITIONS.c.composition_id == same_text(composition_id)
    row = connection.execute(_heads(tenant).where(named)).first()
    return None if row is None else Head(**row._asdict())


def parts(connection: Connection, tenant: str, composition_id: str) -> list[bytes]:
    """A composition's parts, in order."""
    return list(
        connection.execute(
            select(PARTS.c.data)
            .where(PARTS.c.tenant == tenant, PARTS.c.composition_id == composition_id)
            .order_by(PARTS.c.place)
        ).scalars()
    )


def heads(connection: Connection, tenant: str, wanted: Filter, after: Mark | None, limit: int) -> list[Head]:
    """A page of a tenant's compositions, newest first.

    Args:
        connection: Where.
        tenant: Whose.
        wanted: Which.
        after: Where the page before ended; None: from the newest.
        limit: How many at most.
    """
    of = COMPOSITIONS.c
    statement = _heads(tenant)
    if wanted.made_from is not None:
        statement = statement.where(of.made_at >= wanted.made_from)
    if wanted.made_before is not None:
        statement = statement.where(of.made_at < wanted.made_before)
    if after is not None:
        ended_at = (after.made_at, same_text(after.composition_id))
        statement = statement.where(tuple_(of.made_at, of.composition_id) < ended_at)
    if wanted.about_frames:
        statement = statement.where(_offered(wanted))
    elif wanted.provider:
        lane = LANES.c
        statement = statement.where(
            exists().where(
                lane.tenant == of.tenant,
                lane.composition_id == of.composition_id,
                lane.provider == same_text(wanted.provider),
            )
        )
    newest_first = statement.order_by(of.made_at.desc(), of.composition_id.desc()).limit(limit)
    return [Head(**row._asdict()) for row in connection.execute(newest_first)]


def placed(connection: Connection, tenant: str, composition_id: str) -> set[tuple[str, str]]:
    """Provider and id of every frame that a composition placed, ids as :func:`same_text` gives them."""
    of = FRAMES.c
    rows = connection.execute(
        select(of.provider, of.frame_id).where(
            of.tenant == tenant, of.composition_id == composition_id, of.reason == ""
        )
    )
    return {(row.provider, row.frame_id) for row in rows}


def attribute(
    connection: Connection,
    tenant: str,
    composition_id: str,
    observations: Sequence[Observation],
    reported_by: str,
    reported_at: int,
) -> None:
    """Adds observations of a composition's frames; what was seen once stays seen."""
    of = ATTRIBUTIONS.c
    insert = _insert(connection, ATTRIBUTIONS)
    new = insert.excluded
    statement = insert.on_conflict_do_update(
        index_elements=[of.tenant, of.composition_id, of.provider, of.frame_id],
        set_={
            "selected": or_(of.selected, new.selected),
            "rendered": or_(of.rendered, new.rendered),
            "cited": or_(of.cited, new.cited),
            "reported_by": new.reported_by,
            "reported_at": new.reported_at,
        },
    )
    # In one order everywhere: two reports at once cannot wait for each other's rows.
    for seen in sorted(observations, key=lambda seen: (seen.provider, seen.frame_id)):
        connection.execute(
            statement,
            {
                "tenant": tenant,
                "composition_id": composition_id,
                "provider": seen.provider,
                "frame_id": same_text(seen.frame_id),
                "selected": seen.selected,
                "rendered": seen.rendered,
                "cited": seen.cited,
                "reported_by": same_text(reported_by),
                "reported_at": reported_at,
            },
        )


def statistics(connection: Connection, tenant: str, made_from: int, made_before: int) -> list[ProviderStatistics]:
    """Every provider of a tenant over the compositions made in a window, by name."""
    lane, seen = LANES.c, ATTRIBUTIONS.c
    window = and_(lane.tenant == tenant, lane.made_at >= made_from, lane.made_at < made_before)

    def ended(ends: tuple[str, ...]) -> Any:
        return func.count().filter(lane.end.in_(ends))

    lanes = connection.execute(
        select(
            lane.provider,
            func.count().filter(lane.end.not_in(NOT_ASKED)).label("asked"),
            ended(ANSWERED).label("answered"),
            ended(LATE).label("late"),
            ended(FAILED).label("failed"),
            ended(LIED).label("lied"),
            ended(NOT_ASKED).label("not_asked"),
            func.sum(lane.offered).label("offered"),
            func.sum(lane.placed).label("placed"),
            func.sum(lane.tokens_placed).label("tokens_placed"),
        )
        .where(window)
        .group_by(lane.provider)
        .order_by(lane.provider)
    ).all()
    observed = connection.execute(
        select(
            seen.provider,
            func.count().filter(seen.selected).label("selected"),
            func.count().filter(seen.rendered).label("rendered"),
            func.count().filter(seen.cited).label("cited"),
        )
        .join(
            LANES,
            and_(
                lane.tenant == seen.tenant,
                lane.composition_id == seen.composition_id,
                lane.provider == seen.provider,
            ),
        )
        .where(window)
        .group_by(seen.provider)
    )
    by_provider = {row.provider: row._asdict() for row in observed}
    return [_statistics(row._asdict() | by_provider.get(row.provider, {})) for row in lanes]


def forget(connection: Connection, made_before: int, limit: int) -> int:
    """Forgets compositions made before a time, the oldest first; how many, at most ``limit``."""
    return _forget(connection, COMPOSITIONS.c.made_at < made_before, limit)


def forget_beyond(connection: Connection, count: int, limit: int) -> int:
    """Forgets all but the newest ``count`` compositions of every tenant; how many, at most ``limit``."""
    of = COMPOSITIONS.c
    grown = select(of.tenant).group_by(of.tenant).having(func.count() > count).order_by(of.tenant)
    forgotten = 0
    for tenant in connection.execute(grown).scalars().all():
        newest_first = select(of.made_at).where(of.tenant == tenant).order_by(of.made_at.desc())
        last = connection.execute(newest_first.offset(count).limit(1)).scalar_one()
        forgotten += _forget(connection, and_(of.tenant == tenant, of.made_at <= last), limit - forgotten)
        if forgotten == limit:
            break
    return forgotten


def _forget(connection: Connection, which: Any, limit: int) -> int:
    of = COMPOSITIONS.c
    oldest = select(of.tenant, of.composition_id).where(which).order_by(of.made_at).limit(limit)
    return connection.execute(delete(COMPOSITIONS).where(tuple_(of.tenant, of.composition_id).in_(oldest))).rowcount


def _statistics(row: dict[str, Any]) -> ProviderStatistics:
    # Sums come back as decimals from one engine, and as whole numbers from the other.
    provider = row.pop("provider")
    return ProviderStatistics(provider=provider, **{name: int(value) for name, value in row.items()})


def _heads(tenant: str) -> Select[Any]:
    of = COMPOSITIONS.c
    return select(of.composition_id, of.request_id, of.subject, of.made_at, of.strategy, of.head).where(
        of.tenant == tenant
    )


def _offered(wanted: Filter) -> Any:
    """Whether the composition was offered a frame of which all of the filter is true."""
    frame, of = FRAMES.c, COMPOSITIONS.c
    conditions = [frame.tenant == of.tenant, frame.composition_id == of.composition_id]
    if wanted.provider:
        conditions.append(frame.provider == same_text(wanted.provider))
    if wanted.frame_id:
        conditions.append(frame.frame_id == same_text(wanted.frame_id))
    if wanted.reason:
        conditions.append(frame.reason == same_text(wanted.reason))
    if wanted.placed is not None:
        conditions.append(frame.reason == "" if wanted.placed else frame.reason != "")
    if not wanted.document:
        return exists().where(*conditions)
    # Two questions, each with an index of its own.
    return or_(*(exists().where(*conditions, so) for so in _of_document(same_text(wanted.document))))


def _of_document(named: str) -> Iterator[Any]:
    """Either is true of a frame of that document: its whole path or the last segments of it are the name, or its id."""
    frame, path = FRAMES.c, path_of(named)
    # Not LIKE, which tells upper from lower case on one engine and not on the other.
    end = func.substr(frame.source, func.length(frame.source) - len(path))
    named_so = and_(frame.document == last_segment(path), or_(frame.source == path, end == f"/{path}"))
    yield frame.frame_id == named
    if path:
        yield named_so


def same_text(value: str) -> str:
    """A peer's text as every engine can hold it (PostgreSQL has no place for a NUL); what is sought is mapped alike."""
    return value.replace("\x00", "\ufffd")


def _insert(connection: Connection, table: Table) -> Any:
    """An INSERT that may say what to do where the row is there: each engine's own, of one form."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)


def _insert_all(connection: Connection, table: Table, rows: list[dict[str, object]]) -> None:
    if rows:
        connection.execute(table.insert(), rows)
