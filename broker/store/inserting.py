"""Rows into a table, by the driver itself: what SQLAlchemy does around a statement takes longer than a short one.

SQLite's driver lets other threads in before and after each row of many, and whoever lets another in may wait for it:
under load that takes longer than the rows. So many short rows are one statement there. A long one is a statement of its
own, since that driver holds on to the values of every statement that it knows. PostgreSQL's sends rows as they are, all
at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

from sqlalchemy import Connection, Dialect, Table

VALUES = 900
"""Values of one statement: every SQLite takes 999."""


def insert_all(connection: Connection, table: Table, rows: Sequence[tuple[object, ...]], *, short: bool) -> None:
    """Inserts rows.

    Args:
        connection: Where.
        table: Of which table.
        rows: Each a value for every column in the table's order.
        short: Whether none of them is long.

    Raises:
        sqlalchemy.exc.DBAPIError: They could not be inserted; from SQLite it is the driver's own ``sqlite3.Error``.
    """
    if not rows:
        return
    dialect = connection.dialect
    if dialect.name == "postgresql":
        connection.exec_driver_sql(_inserting(table, dialect), list(rows))
        return
    cursor = connection.connection.cursor()
    at_once = VALUES // len(rows[0]) if short else 1
    for start in range(0, len(rows), at_once):
        some = rows[start : start + at_once]
        cursor.execute(_inserting_many(table, dialect, len(some)), tuple(chain.from_iterable(some)))


@lru_cache(maxsize=16)
def _inserting(table: Table, dialect: Dialect) -> str:
    """The statement that inserts a row into a table, as a driver takes it."""
    return str(table.insert().compile(dialect=dialect))


@lru_cache(maxsize=256)
def _inserting_many(table: Table, dialect: Dialect, count: int) -> str:
    """The statement that inserts so many rows."""
    one = _inserting(table, dialect)
    _, _, values = one.rpartition(" VALUES ")
    return one + f", {values}" * (count - 1)
