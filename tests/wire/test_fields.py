"""Fields are encoded as protobuf encodes them, in strings whose characters are bytes."""

from __future__ import annotations

import pytest
from contextbroker.v1 import composition_pb2, frame_pb2
from google.protobuf.internal.encoder import _VarintBytes
from hypothesis import given
from hypothesis import strategies as st

from broker.wire.fields import as_bytes, fields_of, octets, varint

texts = st.text(st.characters(exclude_categories=("Cs",)))


@given(st.integers(-(2**63), 2**64 - 1))
def test_a_number_is_written_as_protobuf_writes_it(number: int):
    assert varint(number) == _VarintBytes(number & 2**64 - 1)


@given(texts)
def test_octets_are_the_bytes_of_a_text(text: str):
    assert as_bytes(octets(text)) == text.encode()


def test_a_lone_surrogate_is_refused():
    with pytest.raises(UnicodeEncodeError):
        octets("a\ud800")


@given(texts | st.text("ab", min_size=60, max_size=200))
def test_a_text_is_written_as_protobuf_writes_it_each_time(text: str):
    reason = fields_of(composition_pb2.AuditRow.DESCRIPTOR)[4]
    expected = composition_pb2.AuditRow(reason=text).SerializeToString()
    assert [as_bytes(reason.text(text)), as_bytes(reason.texts[text]), as_bytes(reason.texts[text])] == [expected] * 3


@given(st.integers(0, 2**32 - 1))
def test_a_number_of_a_field_too(number: int):
    rank = fields_of(composition_pb2.AuditRow.DESCRIPTOR)[8]
    expected = composition_pb2.AuditRow(rank=number).SerializeToString()
    # The second time it may be remembered.
    assert [as_bytes(rank[number]), as_bytes(rank[number])] == [expected] * 2


@given(st.floats() | st.just(-0.0))
def test_a_double_is_left_out_where_it_is_zero_unless_its_presence_is_told(number: float):
    least, score = fields_of(frame_pb2.ScoreScale.DESCRIPTOR)[1], fields_of(frame_pb2.Frame.DESCRIPTOR)[4]
    assert as_bytes(least.double(number)) == frame_pb2.ScoreScale(min=number).SerializeToString()
    assert as_bytes(score.present(number)) == frame_pb2.Frame(score=number).SerializeToString()


def test_many_texts_and_long_ones_are_not_remembered():
    reason = fields_of(composition_pb2.AuditRow.DESCRIPTOR)[4]
    for number in range(5000):
        assert (
            as_bytes(reason.texts[f"text {number}"])
            == composition_pb2.AuditRow(reason=f"text {number}").SerializeToString()
        )
    assert reason.texts["x" * 1000]
    assert 0 < len(reason.texts) <= 1024
    assert "x" * 1000 not in reason.texts


def test_large_numbers_are_not_remembered():
    rank = fields_of(composition_pb2.AuditRow.DESCRIPTOR)[8]
    assert rank[2**31]
    assert rank[7]
    assert 7 in rank
    assert 2**31 not in rank
