"""What is asked of the tables: plain functions of a connection, the same for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import msgpack
from msgspec.structs import astuple
from sqlalchemy import Column, Connection, Select, Table, and_, delete, func, or_, select, tuple_
from sqlalchemy.dialects import postgresql, sqlite

from broker.core.records import Observation, ProviderStatistics
from broker.store import frames
from broker.store.frames import same_text
from broker.store.inserting import insert_all
from broker.store.schema import ATTRIBUTIONS, COMPOSITIONS, HEAD, LANES
from broker.store.values import Head, KeptComposition

NOT_ASKED = ("ABSENT", "QUARANTINED")
LATE = ("TIMED_OUT", "PARTIAL")
ANSWERED = ("COMPLETE", "EMPTY")
FAILED = ("FAILED", "LOST")
LIED = ("REFUSED",)

_packed_parts = msgpack.Encoder().encode
_parts = msgpack.Decoder(list[bytes]).decode


def record(connection: Connection, *kept: KeptComposition) -> None:
    """Keeps compositions, all of them or none.

    Raises:
        IntegrityError: One is kept already, or names a lane twice; SQLAlchemy's, or from SQLite the driver's own.
    """
    compositions: list[tuple[object, ...]] = []
    lanes: list[tuple[object, ...]] = []
    for each in kept:
        tenant, composition_id = each.tenant, each.composition_id
        groups = frames.grouped(each.frames)
        compositions.append(
            (
                tenant,
                composition_id,
                same_text(each.request_id),
                same_text(each.subject),
                each.made_at,
                each.strategy,
                frames.fingerprints(groups),
                each.head,
                frames.packed(groups),
                _packed_parts(each.parts),
            )
        )
        lanes.extend([(tenant, composition_id, *astuple(lane)) for lane in each.lanes])
    insert_all(connection, COMPOSITIONS, compositions, short=False)
    insert_all(connection, LANES, lanes, short=True)


def head(connection: Connection, tenant: str, composition_id: str) -> Head | None:
    """A composition without its parts; None: the tenant has none of that id."""
    row = connection.execute(_one(HEAD, tenant, composition_id)).first()
    return None if row is None else Head(*row)


def parts(connection: Connection, tenant: str, composition_id: str) -> list[bytes]:
    """A composition's parts, in order."""
    data = connection.execute(_one([COMPOSITIONS.c.parts], tenant, composition_id)).scalar()
    return [] if data is None else _parts(data)


def placed(connection: Connection, tenant: str, composition_id: str) -> set[tuple[str, str]]:
    """Provider and id of every frame that a composition placed, ids as :func:`same_text` gives them."""
    data = connection.execute(_one([COMPOSITIONS.c.frames], tenant, composition_id)).scalar()
    return set() if data is None else frames.placed(data)


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
    of, lane, seen = COMPOSITIONS.c, LANES.c, ATTRIBUTIONS.c
    window = and_(of.tenant == tenant, of.made_at >= made_from, of.made_at < made_before)

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
        .join(COMPOSITIONS, and_(of.tenant == lane.tenant, of.composition_id == lane.composition_id))
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
        .join(COMPOSITIONS, and_(of.tenant == seen.tenant, of.composition_id == seen.composition_id))
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


def _one(columns: Sequence[Column[Any]], tenant: str, composition_id: str) -> Select[Any]:
    of = COMPOSITIONS.c
    return select(*columns).where(of.tenant == tenant, of.composition_id == same_text(composition_id))


def _insert(connection: Connection, table: Table) -> Any:
    """An INSERT that may say what to do where the row is there: each engine's own, of one form."""
    return postgresql.insert(table) if connection.dialect.name == "postgresql" else sqlite.insert(table)
