"""Run by Alembic: migrates the connection that it was given, in the transaction that is open on it."""

from alembic import context

from broker.store.schema import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
