"""The parts of a delivery come back from the wire as they were; what is no part is refused."""

from __future__ import annotations

import pytest
from contextbroker.v1 import provider_service_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from broker.core.scores import UNIT
from broker.errors import FieldViolation, InvalidArgument
from broker.wire.batches import join_batch
from broker.wire.pushes import PushHeader, push_header, push_part, read_push_request
from tests.wire import values


@given(st.builds(PushHeader, values.texts, values.texts, values.scales()))
def test_a_header_comes_back_as_it_was(header: PushHeader):
    assert read_push_request(push_header(header)) == header


@given(st.lists(st.binary(max_size=9), max_size=4))
def test_a_part_comes_back_as_a_batch_without_a_query(frames: list[bytes]):
    assert read_push_request(push_part(frames)) == join_batch("", frames)


def test_a_scale_left_out_is_unit():
    data = pb.PushRequest(header=pb.PushHeader(provider_id="a", request_id="r")).SerializeToString()
    assert read_push_request(data) == PushHeader("a", "r", UNIT)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0a\x05",
        b"\x0a\x00\x12\x00",
        b"\x12\x00\x12\x00",
        b"\x1a\x00",
        b"\x0a\x03\x0a\x01\xff",
        b"\x12\x02\x0a\x05",
    ],
)
def test_what_is_no_part_is_malformed(data: bytes):
    with pytest.raises(InvalidArgument) as error:
        read_push_request(data)
    assert error.value.reason == "MALFORMED"


def test_a_header_is_held_against_its_constraints():
    wrong = [FieldViolation("provider_id", "PROVIDER_NAME", "bad")]
    with pytest.raises(InvalidArgument) as error:
        read_push_request(push_header(PushHeader("A", "r")), check=lambda _: wrong)
    assert error.value.violations == tuple(wrong)
    assert read_push_request(push_part([b"x"]), check=lambda _: wrong) == join_batch("", [b"x"])
