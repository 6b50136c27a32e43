"""The port to a database: one way to run a transaction, which every engine has.

A piece of work is a plain function of a SQLAlchemy connection; whether it runs in the thread that owns a file or in a
connection of a pool is the engine's business, and everything that can go wrong with a database comes out as one error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection

T = TypeVar("T")


class StoreUnavailable(Exception):
    """The database cannot be used now: it is away, locked, full, read-only, damaged or slow. The text says which."""


class StoreUnusable(Exception):
    """The database cannot be used by this version at all; the text says why and what to do."""


class Engine(Protocol):
    """A database."""

    @property
    def name(self) -> str:
        """What it is and where, for people; no secret is in it."""

    def run(self, work: Callable[[Connection], T], *, write: bool, patient: bool = False) -> Awaitable[T]:
        """Runs ``work`` in one transaction, which is committed when what is awaited returns.

        Args:
            work: Called once. What it raises is raised there, after a rollback.
            write: Whether it changes anything.
            patient: Whether it may take as long as it needs once it has begun.

        Raises:
            StoreUnavailable: The database cannot be used now. Nothing of ``work`` is then known to be kept.
        """

    async def close(self) -> None:
        """Lets go of everything; idempotent."""
