"""The errors of the broker: each becomes a gRPC status in one place, and comes back as itself in the client.

This module imports nothing of the project, so that every part of it can raise these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct


class FieldViolation(Struct, frozen=True, gc=False):
    """One field that was wrong.

    Attributes:
        field: Path of the field in the request, such as ``floors[0].provider_id``; empty for the whole message.
        reason: Stable UPPER_SNAKE reason.
        message: What was wrong and what to do instead.
    """

    field: str
    reason: str
    message: str


class BrokerError(Exception):
    """Base of all errors that cross the broker's surface.

    Attributes:
        code: Name of the canonical gRPC status code.
        reason: Stable UPPER_SNAKE reason, the ``reason`` of ``google.rpc.ErrorInfo``.
        message: What was wrong and what to do.
        violations: The fields concerned, where the error is about fields.
        retry_after: Seconds after which trying again makes sense; None where it makes none.
        quota: Name of the limit that was reached; empty where none was.
    """

    code: ClassVar[str] = "UNKNOWN"

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        violations: Sequence[FieldViolation] = (),
        retry_after: float | None = None,
        quota: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.violations = tuple(violations)
        self.retry_after = retry_after
        self.quota = quota


class InvalidArgument(BrokerError):
    """A request breaks a rule of its own, whatever the state of the broker."""

    code = "INVALID_ARGUMENT"

    @classmethod
    def of(cls, violations: Sequence[FieldViolation]) -> InvalidArgument:
        """The error for one or more wrong fields; its reason is the first one's."""
        first = violations[0]
        text = "; ".join(f"{v.field}: {v.message}" if v.field else v.message for v in violations)
        return cls(first.reason, text, violations=violations)


class FailedPrecondition(BrokerError):
    """The request is well formed, and the state of the broker does not allow it."""

    code = "FAILED_PRECONDITION"


class NotFound(BrokerError):
    """What the request names does not exist, or is another's."""

    code = "NOT_FOUND"


class AlreadyExists(BrokerError):
    """What the request names is taken."""

    code = "ALREADY_EXISTS"


class PermissionDenied(BrokerError):
    """The caller may not do this."""

    code = "PERMISSION_DENIED"


class Unauthenticated(BrokerError):
    """The caller did not show who it is."""

    code = "UNAUTHENTICATED"


class ResourceExhausted(BrokerError):
    """A limit was reached; ``quota`` names it and ``retry_after`` says when to come back."""

    code = "RESOURCE_EXHAUSTED"


class Unavailable(BrokerError):
    """There is no answer now; trying again may help."""

    code = "UNAVAILABLE"


class Aborted(BrokerError):
    """The call was ended by another one, such as a newer session of the same instance."""

    code = "ABORTED"


class Cancelled(BrokerError):
    """The caller went away."""

    code = "CANCELLED"


class DeadlineExceeded(BrokerError):
    """The caller's deadline passed."""

    code = "DEADLINE_EXCEEDED"


class Unimplemented(BrokerError):
    """An option or a method that this version does not build."""

    code = "UNIMPLEMENTED"


class Internal(BrokerError):
    """A fault of the broker's own; the message carries a correlation id and nothing else."""

    code = "INTERNAL"


class CrossProviderComparison(TypeError):
    """Scores of two providers were about to be compared; they share no scale.

    Attributes:
        left: Provider of the one score.
        right: Provider of the other.
    """

    def __init__(self, left: str, right: str) -> None:
        super().__init__(
            f"the scores of {left!r} and {right!r} share no scale and cannot be compared; "
            "compare local ranks, or name the strategy score_descending"
        )
        self.left = left
        self.right = right


class ConfigError(Exception):
    """The configuration cannot be used; the message says which key, what was expected and what to do."""
