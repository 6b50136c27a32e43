"""An error becomes a status with all its details, and is cut to what every peer takes where it has too many."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import grpc
import grpc.aio
import pytest

from broker.errors import BrokerError, FieldViolation, ResourceExhausted
from broker.rpc.status import abort, fitting
from broker.wire.status import DETAILS_KEY, error_from_status, status_proto


class Context:
    async def abort(self, code: grpc.StatusCode, details: str, metadata: tuple) -> None:
        self.said = (code, details, dict(metadata))
        raise grpc.aio.AbortError


@pytest.mark.parametrize("kind", BrokerError.__subclasses__(), ids=lambda kind: kind.__name__)
async def test_every_error_has_a_status_and_comes_back_as_itself(kind: type[BrokerError]) -> None:
    error = kind("A_REASON", "what to do", violations=[FieldViolation("a[0].b", "B", "c")], retry_after=1.5, quota="q")
    context = Context()
    with pytest.raises(grpc.aio.AbortError):
        await abort(context, error)
    code, text, metadata = context.said
    assert code is grpc.StatusCode[kind.code]
    back = error_from_status(code.name, type(status_proto(error)).FromString(metadata[DETAILS_KEY]), text)
    assert type(back) is kind
    assert (back.reason, back.message, back.violations) == (error.reason, error.message, error.violations)
    assert (back.retry_after, back.quota) == (1.5, "q")


def test_what_fits_is_left_as_it_is() -> None:
    error = ResourceExhausted("R", "m", retry_after=1.0, quota="q")
    assert vars(fitting(error)) == vars(error)


def wire_bytes(error: BrokerError) -> int:
    """What the error takes of the metadata that a peer is sure to accept, 8 KiB."""
    return len(quote(error.message, safe="")) + len(b64encode(status_proto(error).SerializeToString()))


@pytest.mark.parametrize("letter", ["x", "é", "€", "😀"])
@pytest.mark.parametrize("count", [0, 1, 2, 100, 3000])
def test_too_much_is_cut_and_says_so(count: int, letter: str) -> None:
    violations = [FieldViolation(f"floors[{i}].{letter * 300}", "R", letter * 2000) for i in range(count)]
    cut = fitting(ResourceExhausted("R", letter * 5000, violations=violations, quota="q", retry_after=1.0))
    assert wire_bytes(cut) < 7500
    assert len(cut.violations) >= min(count, 1)
    assert (f"showing {len(cut.violations)} of {count} violations" in cut.message) == (len(cut.violations) < count)
    assert "…" in cut.message
