"""Every error of the broker comes back from its status as itself, reason, fields, delay, quota and all."""

from __future__ import annotations

import pytest
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from hypothesis import given
from hypothesis import strategies as st

from broker import errors
from broker.errors import BrokerError, FieldViolation, NotFound, Unavailable
from broker.wire.status import DOMAIN, error_from_status, read_details, status_proto
from tests.wire import values

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, BrokerError)]
words = values.texts.filter(bool)


def through_the_wire(error: BrokerError) -> BrokerError:
    details = read_details(status_proto(error).SerializeToString())
    assert details is not None
    return error_from_status(error.code, details, "text of the call")


@given(
    kind=st.sampled_from(KINDS),
    reason=words,
    message=words,
    violations=values.tuples(st.builds(FieldViolation, values.texts, values.texts, values.texts)),
    retry_after=st.none() | st.integers(0, 10**13).map(lambda nanos: nanos / 10**9),
    quota=values.texts,
)
def test_an_error_comes_back_as_itself(kind, reason, message, violations, retry_after, quota):
    error = kind(reason, message, violations=violations, retry_after=retry_after, quota=quota)
    back = through_the_wire(error)
    assert type(back) is kind
    assert vars(back) == vars(error)
    assert str(back) == message


@pytest.mark.parametrize("kind", KINDS)
def test_the_code_of_every_error_is_canonical(kind: type[BrokerError]):
    assert status_proto(kind("R", "m")).code == code_pb2.Code.Value(kind.code)


def test_details_appear_only_where_there_is_something_to_say():
    def kinds(error: BrokerError) -> list[str]:
        return [detail.TypeName() for detail in status_proto(error).details]

    assert kinds(NotFound("R", "m")) == ["google.rpc.ErrorInfo"]
    full = Unavailable("R", "m", violations=[FieldViolation("f", "R", "m")], retry_after=0.0, quota="q")
    assert kinds(full) == [
        "google.rpc.ErrorInfo",
        "google.rpc.BadRequest",
        "google.rpc.RetryInfo",
        "google.rpc.QuotaFailure",
    ]


def test_the_reason_stands_in_the_domain_of_the_broker():
    info = error_details_pb2.ErrorInfo()
    assert status_proto(NotFound("GONE", "m")).details[0].Unpack(info)
    assert (info.reason, info.domain) == ("GONE", DOMAIN)


def test_an_error_without_details_is_known_by_its_code():
    error = error_from_status("NOT_FOUND", None, "no such thing")
    assert isinstance(error, NotFound)
    assert (error.reason, error.message) == ("NOT_FOUND", "no such thing")


@pytest.mark.parametrize("code", ["UNKNOWN", "DATA_LOSS", "OUT_OF_RANGE", "anything"])
def test_a_code_that_the_broker_never_sends_is_an_error_all_the_same(code: str):
    error = error_from_status(code, None, "odd")
    assert type(error) is BrokerError
    assert (error.reason, error.message) == (code, "odd")


def test_details_of_another_domain_are_not_the_brokers():
    status = status_pb2.Status(code=5, message="m")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="THEIRS", domain="elsewhere"))
    assert read_details(status.SerializeToString()) is None
    assert error_from_status("NOT_FOUND", status, "").reason == "NOT_FOUND"


def test_details_that_do_not_parse_are_passed_over():
    assert read_details(b"\xff") is None
    status = status_proto(NotFound("GONE", "m"))
    for name in ("BadRequest", "RetryInfo", "QuotaFailure"):
        status.details.append(any_pb2.Any(type_url=f"type.googleapis.com/google.rpc.{name}", value=b"\xff"))
    error = error_from_status("NOT_FOUND", status, "")
    assert (error.reason, error.violations, error.retry_after, error.quota) == ("GONE", (), None, "")
    broken = status_pb2.Status(code=5)
    broken.details.append(any_pb2.Any(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"\xff"))
    assert read_details(broken.SerializeToString()) is None
