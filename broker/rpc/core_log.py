"""What grpc's own log must not say."""

from __future__ import annotations

import logging

_HELD_BACK = (
    # It shows metadata that is not UTF-8, which may be a credential.
    "Invalid encoding",
    # A peer left while its status was sent, which is no fault, and the core did not know of it yet.
    "ExecuteBatchError raised in core",
)
"""How lines begin, with a traceback each, that are held back."""


class _HoldsBack(logging.Filter):
    """Holds back the lines of :data:`_HELD_BACK`."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line may be written."""
        return not str(record.msg).startswith(_HELD_BACK)


_FILTER = _HoldsBack()


def hold_lines_back() -> None:
    """Holds such lines back from now on, in the whole process; idempotent."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(_FILTER)
