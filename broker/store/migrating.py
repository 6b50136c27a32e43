"""Bringing a database to this version: every step in one transaction, so that a step that fails leaves none of them."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text

from broker.store.engine import Engine, StoreUnusable

MIGRATIONS = Path(__file__).parent / "migrations"

_LOCK = 0x636F6E74  # "cont": any number that no one else locks


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
    await engine.run(lambda connection: _migrate(engine.name, connection, migrations, to), write=True)


def _migrate(name: str, connection: Connection, migrations: Path, to: str) -> None:
    if connection.dialect.name == "postgresql":
        # Two brokers that start together: the second waits, and finds everything done.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    config = Config()
    # A folder's name may hold what the configuration's own format reads as a reference.
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    found = MigrationContext.configure(connection).get_current_revision()
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
    try:
        command.upgrade(config, to)
    except Exception as error:
        raise StoreUnusable(
            f"{name} could not be brought from schema {found or 'none'} to {to}, and is as it was: "
            f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        ) from error
