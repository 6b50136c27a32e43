"""The ``context-broker`` command."""
