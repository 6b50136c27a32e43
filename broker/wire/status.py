"""The domain's errors as ``google.rpc.Status``, and back.

An error's ``reason`` is the reason of an ``ErrorInfo`` of domain ``contextbroker``; its violations are a
``BadRequest``, its ``retry_after`` is a ``RetryInfo``, its ``quota`` the subject of a ``QuotaFailure``.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError
from google.rpc import code_pb2, error_details_pb2, status_pb2  # type: ignore[import-untyped]

from broker.errors import BrokerError, FieldViolation

DOMAIN = "contextbroker"
"""The domain of every reason."""

DETAILS_KEY = "grpc-status-details-bin"
"""The trailing metadata that carries google.rpc.Status, as every gRPC library reads it."""

_ERRORS: dict[str, type[BrokerError]] = {kind.code: kind for kind in BrokerError.__subclasses__()}


def status_proto(error: BrokerError) -> status_pb2.Status:
    """An error as a status with its details."""
    status = status_pb2.Status(code=code_pb2.Code.Value(error.code), message=error.message)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN))
    if error.violations:
        fields = [
            error_details_pb2.BadRequest.FieldViolation(field=v.field, description=v.message, reason=v.reason)
            for v in error.violations
        ]
        status.details.add().Pack(error_details_pb2.BadRequest(field_violations=fields))
    if error.retry_after is not None:
        retry = error_details_pb2.RetryInfo()
        retry.retry_delay.FromNanoseconds(round(error.retry_after * 1e9))
        status.details.add().Pack(retry)
    if error.quota:
        reached = error_details_pb2.QuotaFailure.Violation(subject=error.quota, description=error.message)
        status.details.add().Pack(error_details_pb2.QuotaFailure(violations=[reached]))
    return status


def read_details(data: bytes) -> status_pb2.Status | None:
    """A serialized status with details; None where it cannot be read, or is not of this broker."""
    try:
        status = status_pb2.Status.FromString(data)
        infos = [d for d in status.details if d.Is(error_details_pb2.ErrorInfo.DESCRIPTOR)]
        ours = any(error_details_pb2.ErrorInfo.FromString(info.value).domain == DOMAIN for info in infos)
    except DecodeError:
        return None
    return status if ours else None


def error_from_status(code: str, details: status_pb2.Status | None, text: str) -> BrokerError:
    """The error that a status stands for; the inverse of :func:`status_proto`.

    Args:
        code: Name of the canonical status code, such as ``NOT_FOUND``.
        details: The status with its details; None where the answer carried none.
        text: The status message, for where ``details`` has none.

    Returns:
        The error of that code; a plain :class:`~broker.errors.BrokerError` for a code that the broker has no error for.
        Without an ``ErrorInfo`` of ours its reason is the code's name. Details that do not parse are passed over.
    """
    reason, quota = code, ""
    violations: list[FieldViolation] = []
    retry_after: float | None = None
    for detail in details.details if details is not None else ():
        try:
            if detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR):
                info = error_details_pb2.ErrorInfo.FromString(detail.value)
                reason = info.reason if info.domain == DOMAIN else reason
            elif detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                fields = error_details_pb2.BadRequest.FromString(detail.value).field_violations
                violations.extend(FieldViolation(v.field, v.reason, v.description) for v in fields)
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
                retry_after = (delay.seconds * 10**9 + delay.nanos) / 1e9
            elif detail.Is(error_details_pb2.QuotaFailure.DESCRIPTOR):
                quota = next(
                    (v.subject for v in error_details_pb2.QuotaFailure.FromString(detail.value).violations), ""
                )
        except DecodeError:
            continue
    message = (details.message if details is not None else "") or text
    kind = _ERRORS.get(code, BrokerError)
    return kind(reason, message, violations=violations, retry_after=retry_after, quota=quota)
