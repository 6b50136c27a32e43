"""Bringing a database to this version: every step in one transaction, so that a step that fails leaves none of them."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text

from broker.store.engine import Engine, StoreUnusable

MIGRATIONS = Path(__file__).parent / "migrations"

_LOCK = 0x636F6E74  # "cont": any number that no one else locks

log = structlog.get_logger("broker.store")


async def migrate(engine: Engine, *, migrations: Path = MIGRATIONS, to: str = "head") -> None:
    """Brings a database to a version; it stays as it is where it has it already.

    Args:
        engine: The database.
        migrations: The folder of the steps.
        to: The version; ``head``: the newest.

    Raises:
        StoreUnavailable: The database cannot be used now.
        StoreUnusable: It is of a version that this folder does not know, or a step failed: it is as it was before.
    """
    config = Config()
    # A folder's name may hold what the configuration's own format reads as a reference.
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    wanted = ScriptDirectory.from_config(config).get_current_head() if to == "head" else to
    # Looking is quick. A step may rewrite all that was ever kept.
    if await engine.run(_version, write=True) != wanted:
        await engine.run(partial(_migrate, engine.name, config, to), write=True, patient=True)


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _migrate(name: str, config: Config, to: str, connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        # Two brokers that start together: the second waits, and finds everything done.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    config.attributes["connection"] = connection
    found = _version(connection)
    script = ScriptDirectory.from_config(config)
    try:
        known = found is None or script.get_revision(found) is not None
    except CommandError:
        known = False
    if not known:
        newest = script.get_current_head()
        raise StoreUnusable(
            f"{name} has the schema {found}, and this version knows schemas up to {newest}; "
            "start the version that made it, or a newer one"
        )
    if found is not None:
        log.info("the store is brought to another schema, which may take a while", store=name, found=found, to=to)
    try:
        command.upgrade(config, to)
    except Exception as error:
        raise StoreUnusable(
            f"{name} could not be brought from schema {found or 'none'} to {to}, and is as it was: "
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        ) from error
