"""What grpc's own log must not say."""

from __future__ import annotations

import logging


class _WithoutMetadata(logging.Filter):
    """Holds back the lines, with a traceback each, that show metadata which is not UTF-8: it may be a credential."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the line may be written."""
        return not str(record.msg).startswith("Invalid encoding")


_FILTER = _WithoutMetadata()


def keep_metadata_out() -> None:
    """Holds such lines back from now on, in the whole process; idempotent."""
    logging.getLogger("grpc._cython.cygrpc").addFilter(_FILTER)
