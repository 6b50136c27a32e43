"""The store's versions, each a step from the one before; Alembic runs them."""
