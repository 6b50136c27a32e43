"""A batch's frames are what each is by itself, however they are read; one that cannot be read costs no other."""

from __future__ import annotations

import pytest
from contextbroker.v1 import frame_pb2
from hypothesis import given
from hypothesis import strategies as st

from broker.core.frames import Frame
from broker.core.lanes import Unreadable
from broker.core.slips import content_bytes
from broker.errors import InvalidArgument
from broker.wire import reading
from broker.wire.batches import join_batch
from broker.wire.frames import encode_frame, read_frame, read_frames
from broker.wire.reading import BatchFrames
from tests.wire import values

ROOM = 192 * 1024
FRAME = Frame("i", "t", "c", 0.5)
GOOD = encode_frame(FRAME)
encoded = st.one_of(
    values.frames.map(encode_frame),
    st.tuples(values.frames.map(encode_frame), st.binary(max_size=6)).map(b"".join),
    st.tuples(values.frames.map(encode_frame), st.integers(0, 40)).map(lambda cut: cut[0][: cut[1]]),
    st.binary(max_size=9),
)


@given(st.lists(encoded, max_size=6), st.sampled_from([10, 60, ROOM]), st.text("qé", max_size=3))
def test_the_frames_of_a_batch_are_what_each_is_alone(frames: list[bytes], max_bytes: int, query_id: str):
    batch = BatchFrames(join_batch(query_id, frames), max_bytes)
    assert len(batch) == len(frames)
    # As text, so that a score that is no number is the same as itself.
    assert repr(batch[:]) == repr([read_frame(frame, max_bytes) for frame in frames])


@given(st.lists(encoded, max_size=6), st.sampled_from([0, 10, 60, ROOM]))
def test_frames_that_were_cut_out_are_what_each_is_alone(frames: list[bytes], max_bytes: int):
    assert repr(read_frames(frames, max_bytes)) == repr([read_frame(frame, max_bytes) for frame in frames])


broken = st.sampled_from(
    [b"\xff", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xc0\x80", b"\xf4\x90\x80\x80", "é\U0001f600".encode()]
)
text_fields = st.builds(
    lambda tag, text: bytes((tag, len(text))) + text, st.sampled_from([0x0A, 0x1A, 0x22, 0x3A, 0x42, 0x4A]), broken
)
steps_of_text = st.builds(lambda text: b"\x52" + bytes((len(text),)) + text, text_fields)


@given(st.lists(st.one_of(text_fields, steps_of_text), max_size=3).map(b"".join), st.booleans())
def test_a_text_that_was_read_can_be_encoded(frame: bytes, together: bool):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reading, "TOGETHER_BYTES", ROOM if together else 0)
        read = BatchFrames(join_batch("q", [frame]), ROOM)[:]
    assert all(isinstance(one, Unreadable) or content_bytes(one) is not None for one in read)


@given(st.lists(encoded, max_size=6), st.integers(0, 7), st.integers(0, 7))
def test_a_part_is_that_part_of_the_whole(frames: list[bytes], start: int, stop: int):
    batch = BatchFrames(join_batch("q", frames), ROOM)
    assert repr(batch[start:stop]) == repr(batch[:][start:stop])


@pytest.mark.parametrize("beside", [b"", bytes(reading.TOGETHER_BYTES)], ids=["small", "large"])
@pytest.mark.parametrize(
    "bad",
    [b"\x22\x05x", b"\x0a\x01\xff", b"\x22\x03\xed\xa0\x80", b"\xff" * 20],
    ids=["cut short", "no text", "a surrogate", "garbage"],
)
def test_a_frame_that_cannot_be_read_costs_no_other(bad: bytes, beside: bytes):
    large = frame_pb2.Frame(id="large", content=beside.decode()).SerializeToString()
    first, wrong, last, _ = BatchFrames(join_batch("q", [GOOD, bad, GOOD, large]), ROOM)[:]
    assert first == last == FRAME
    assert isinstance(wrong, Unreadable)
    assert (wrong.reason, wrong.size) == ("FRAME_MALFORMED", len(bad))


def test_a_frame_that_may_nest_as_deep_as_it_does_alone_may_in_a_batch():
    """What a batch adds is one level."""
    for depth in range(90, 110):
        nested = GOOD + b"\x7b" * depth + b"\x7c" * depth
        assert BatchFrames(join_batch("q", [nested]), ROOM)[:] == [read_frame(nested, ROOM)]


@pytest.mark.parametrize("count", [1, 50])
def test_a_frame_that_is_too_large_is_dropped_alone(count: int):
    frames = [GOOD] * count + [encode_frame(Frame("i", "t", "c" * 3000, 0.5))] + [GOOD]
    read = BatchFrames(join_batch("q", frames), 3000)[:]
    assert [number for number, frame in enumerate(read) if isinstance(frame, Unreadable)] == [count]
    assert (read[count].reason, read[count].allowed) == ("FRAME_TOO_LARGE", 3000)


def test_what_stands_beside_the_frames_is_passed_over():
    data = b"\x7a\x02xx" + join_batch("q", [GOOD]) + b"\x10\x05" + join_batch("r", [GOOD])
    assert BatchFrames(data, ROOM)[:] == [read_frame(GOOD, ROOM)] * 2


@pytest.mark.parametrize("data", [b"\x12\x05x", b"\x0a\x01\xff", b"\xff" * 20, bytes(reading.TOGETHER_BYTES + 1)])
def test_what_is_no_batch_is_refused(data: bytes):
    with pytest.raises(InvalidArgument) as error:
        BatchFrames(data, ROOM)
    assert error.value.reason == "MALFORMED"


def test_a_flood_is_not_parsed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "pb", None)
    flood = BatchFrames(b"\x12\x00" * 500_000, ROOM)
    assert len(flood) == 500_000
    assert len(flood[:257]) == 257
