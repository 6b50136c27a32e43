"""From the domain's errors to gRPC's status: the one place."""

from __future__ import annotations

from typing import NoReturn

import grpc
import grpc.aio

from broker.errors import BrokerError, FieldViolation
from broker.wire.status import DETAILS_KEY, status_proto

MAX_DETAILS_BYTES = 3072
"""Of the serialized Status. Peers refuse metadata beyond 8 KiB; base64 adds a third, and percent-encoding makes the
message, which travels beside the details, three times as long at worst. Fewer violations are better than no answer."""

MAX_MESSAGE_BYTES = 1024
MAX_FIELD_BYTES = 256
MAX_VIOLATION_BYTES = 512


async def abort(context: grpc.aio.ServicerContext[bytes, bytes], error: BrokerError) -> NoReturn:
    """Ends a call with an error's status and details.

    Raises:
        grpc.aio.AbortError: Always, by grpc's own design; let it pass.
    """
    error = fitting(error)
    await context.abort(
        grpc.StatusCode[error.code],
        error.message,
        ((DETAILS_KEY, status_proto(error).SerializeToString()),),
    )
    raise AssertionError("abort() always raises")


def fitting(error: BrokerError) -> BrokerError:
    """The error with as much text and as many violations, the first of them always, as a peer is sure to take.

    What is cut says so: a text by its last character, the violations in the message.
    """
    message = _cut(error.message, MAX_MESSAGE_BYTES)
    violations = [
        FieldViolation(_cut(v.field, MAX_FIELD_BYTES), v.reason, _cut(v.message, MAX_VIOLATION_BYTES))
        for v in error.violations
    ]
    total = len(violations)
    while True:
        text = message
        if len(violations) < total:
            counted = f" (showing {len(violations)} of {total} violations)"
            text = _cut(message, MAX_MESSAGE_BYTES - len(counted)) + counted
        smaller = type(error)(
            error.reason, text, violations=violations, retry_after=error.retry_after, quota=error.quota
        )
        if len(violations) <= 1 or status_proto(smaller).ByteSize() <= MAX_DETAILS_BYTES:
            return smaller
        violations = violations[: len(violations) * 3 // 4]


def _cut(text: str, limit: int) -> str:
    """The text in at most so many UTF-8 bytes."""
    encoded = text.encode()
    return text if len(encoded) <= limit else encoded[: limit - 3].decode(errors="ignore") + "…"
