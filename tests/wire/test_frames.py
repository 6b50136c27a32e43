"""A frame and a scale come back from the wire as they were; bytes that are no frame are told apart and never raise."""

from __future__ import annotations

import hashlib
import math
import struct

import pytest
from contextbroker.v1 import frame_pb2
from hypothesis import given
from hypothesis import strategies as st

from broker.core.frames import KINDS, Frame, FrameRef, Provenance, Relation
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, LaneEnd, Unreadable
from broker.core.scores import UNIT, Direction, ScoreScale
from broker.core.slips import MAX_PROVENANCE, MAX_RELATIONS
from broker.errors import InvalidArgument
from broker.wire.frames import (
    encode_frame,
    frame_message,
    kind_name,
    kind_number,
    read_frame,
    read_scale,
    ref_value,
    scale_message,
)
from tests.wire import by_messages, values

ROOM = 10**6


@given(values.frames)
def test_a_frame_comes_back_as_it_was(frame: Frame):
    assert read_frame(frame_message(frame).SerializeToString(), ROOM) == frame
    assert read_frame(encode_frame(frame), ROOM) == frame


@given(st.binary(max_size=60))
def test_whatever_the_bytes_reading_never_raises(data: bytes):
    result = read_frame(data, 40)
    if isinstance(result, Unreadable):
        assert result.size == len(data)
        assert result.digest == "sha256:" + hashlib.sha256(data).hexdigest()
    else:
        assert len(data) <= 40


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a\x05ab", id="cut short"),
        pytest.param(b"\x0a\x02\xff\xfe", id="id is no UTF-8"),
        pytest.param(b"\x22\x03\xed\xa0\x80", id="content is a lone surrogate"),
        pytest.param(b"\x00", id="field number 0"),
        pytest.param(b"\x52\x02\x0a\x05", id="provenance cut short"),
    ],
)
def test_bytes_that_are_no_frame_are_malformed(data: bytes):
    assert read_frame(data, ROOM) == Unreadable(
        len(data), "sha256:" + hashlib.sha256(data).hexdigest(), "FRAME_MALFORMED"
    )


def test_a_frame_may_have_exactly_the_bytes_allowed():
    data = frame_message(Frame("i", "t", "x" * 100, 0.5)).SerializeToString()
    assert isinstance(read_frame(data, len(data)), Frame)
    larger = read_frame(data, len(data) - 1)
    assert larger == Unreadable(
        len(data), "sha256:" + hashlib.sha256(data).hexdigest(), "FRAME_TOO_LARGE", len(data) - 1
    )


def test_fields_that_the_contract_does_not_know_are_passed_over_in_a_frame():
    frame = Frame("i", "t", "c", 0.5)
    assert read_frame(encode_frame(frame) + b"\xfa\x3e\x03new", ROOM) == frame


@pytest.mark.parametrize("bits", [0x7FF8000000000000, 0x7FF0000000000000, 0xFFF0000000000000])
def test_scores_that_are_no_numbers_are_read_for_the_core_to_judge(bits: int):
    data = b"\x0a\x01i\x29" + struct.pack("<Q", bits)
    frame = read_frame(data, ROOM)
    assert isinstance(frame, Frame)
    assert frame.score is not None
    assert not math.isfinite(frame.score)


def test_a_score_or_cost_of_zero_is_not_the_same_as_none():
    zero = read_frame(encode_frame(Frame("i", "t", "c", 0.0, token_cost=0)), ROOM)
    none = read_frame(encode_frame(Frame("i", "t", "c")), ROOM)
    assert isinstance(zero, Frame)
    assert isinstance(none, Frame)
    assert (zero.score, zero.token_cost) == (0.0, 0)
    assert (none.score, none.token_cost) == (None, None)


@pytest.mark.parametrize("field", ["id", "title", "content", "uri"])
@pytest.mark.parametrize("text", ["a\ud800b", "\udfff", "\ud83d\ude00"])
def test_a_text_that_no_utf8_can_hold_arrives_as_a_malformed_frame(field: str, text: str):
    frame = Frame(**{"id": "i", "title": "t", "content": "c", "uri": "u", field: text})
    with pytest.raises(UnicodeEncodeError):
        frame_message(frame)
    result = read_frame(encode_frame(frame), ROOM)
    assert isinstance(result, Unreadable)
    assert result.reason == "FRAME_MALFORMED"


@pytest.mark.parametrize("field", ["citation_label", "valid_from", "content_digest"])
def test_a_broken_text_in_any_other_field_arrives_as_a_malformed_frame_too(field: str):
    result = read_frame(encode_frame(Frame("i", "t", "c", **{field: "\ud800"})), ROOM)
    assert isinstance(result, Unreadable)
    nested = Frame("i", "t", "c", provenance=(Provenance("file", "\ud800"),), relations=(Relation("\ud800"),))
    assert isinstance(read_frame(encode_frame(nested), ROOM), Unreadable)


def test_what_the_wire_cannot_carry_raises_where_it_is_sent():
    for cost in (-1, 2**32):
        with pytest.raises(InvalidArgument) as error:
            frame_message(Frame("i", "t", "c", token_cost=cost), "frames[3]")
        assert [(v.field, v.reason) for v in error.value.violations] == [("frames[3].token_cost", "OUT_OF_RANGE")]
    with pytest.raises(TypeError):
        frame_message(Frame("i", "t", "c", score="high"))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as error:
        frame_message(Frame("i", "t", "c", kind="poem"))
    assert (error.value.reason, error.value.violations[0].field) == ("KIND_UNKNOWN", "kind")
    assert "unspecified" not in error.value.message


@pytest.mark.parametrize(("path", "field"), [("", "score"), ("frames[1]", "frames[1].score")])
def test_a_score_of_more_than_64_bits_is_refused_with_its_field(path: str, field: str):
    with pytest.raises(InvalidArgument) as error:
        encode_frame(Frame("i", "t", "c", 10**400), path)
    assert [(v.field, v.reason) for v in error.value.violations] == [(field, "OUT_OF_RANGE")]


@pytest.mark.parametrize(("tag", "limit"), [(b"\x52", MAX_PROVENANCE), (b"\x5a", MAX_RELATIONS)])
@pytest.mark.parametrize("times", [1, 1000])
def test_hosts_of_provenance_are_read_just_far_enough_to_be_refused(tag: bytes, limit: int, times: int):
    # A batch has room for a quarter of a million: to read them all would hold everyone up for seconds.
    good = frame_message(Frame("i", "t", "c", score=0.5)).SerializeToString()
    frame = read_frame(good + (tag + b"\x00") * (limit + times), ROOM)
    assert isinstance(frame, Frame)
    assert len(frame.provenance) + len(frame.relations) == limit + 1
    intake = LaneIntake("a", UNIT, Grant(10, 10))
    intake.take([read_frame(good + (tag + b"\x00") * limit, ROOM), frame])
    lane = intake.close(LaneEnd.COMPLETE)
    assert len(lane.candidates) == 1
    assert [slip.reason.partition("_")[2] for slip in lane.slips] == ["TOO_MANY"]


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_number_of_a_kind_has_a_name_and_comes_back(number: int):
    assert kind_number(kind_name(number)) == number
    message = frame_pb2.Frame.FromString(frame_pb2.Frame(kind=number).SerializeToString())
    assert kind_name(message.kind) == kind_name(number)


def test_the_kinds_are_those_of_the_contract():
    listed = [name.removeprefix("FRAME_KIND_").lower() for name, _ in frame_pb2.FrameKind.items()]
    assert listed == list(KINDS)


@pytest.mark.parametrize("name", ["", "poem", "SNIPPET", "kind-", "kind-x", "kind-01", "kind-2147483648", "kind- 1"])
def test_a_name_that_is_no_kind_is_refused_with_its_path(name: str):
    with pytest.raises(InvalidArgument) as error:
        kind_number(name, "kinds[2]")
    assert [(v.field, v.reason) for v in error.value.violations] == [("kinds[2]", "KIND_UNKNOWN")]


@given(values.scales())
def test_a_scale_comes_back_as_it_was(scale: ScoreScale):
    data = scale_message(scale).SerializeToString()
    assert read_scale(frame_pb2.ScoreScale.FromString(data)) == scale


def test_a_scale_left_out_is_unit_and_a_direction_left_out_is_higher():
    assert read_scale(None) == UNIT
    assert read_scale(frame_pb2.ScoreScale(id="s", max=2.0)).direction is Direction.HIGHER_IS_BETTER


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.nan), (0.0, 0.0)])
def test_ends_out_of_order_are_refused_with_their_path(low: float, high: float):
    with pytest.raises(InvalidArgument) as error:
        read_scale(frame_pb2.ScoreScale(id="s", min=low, max=high), "inline_lanes[1].scale")
    assert [(v.field, v.reason) for v in error.value.violations] == [("inline_lanes[1].scale", "SCALE")]


def test_a_direction_that_is_not_listed_is_refused_with_its_value():
    with pytest.raises(InvalidArgument, match="the value 9 ") as error:
        read_scale(frame_pb2.ScoreScale(id="s", max=1.0, direction=9), "scale")
    assert [(v.field, v.reason) for v in error.value.violations] == [("scale.direction", "ENUM_UNKNOWN")]


@given(values.refs)
def test_the_name_of_a_frame_comes_back_as_it_was(ref: FrameRef):
    assert ref_value(by_messages.ref_message(ref)) == ref
