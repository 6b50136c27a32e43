"""Frames leave in order, in batches that a broker takes, and none is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.client.outgoing import MAX_BATCH_FRAMES, Filling, batches_of, encoded
from broker.core.frames import Frame
from broker.core.lanes import Unreadable
from broker.errors import InvalidArgument
from broker.wire.batches import MAX_BATCH_BYTES, join_batch
from broker.wire.frames import read_frame
from broker.wire.sessions import Limits

sizes = st.lists(st.integers(0, 3000), max_size=300)
limits = st.builds(Limits, st.integers(2048, 8192), st.integers(1, 100), st.integers(500, 4000))


@given(sizes, limits)
def test_no_batch_is_empty_or_too_large_and_all_frames_are_in_them_in_order(lengths: list[int], allowed: Limits):
    frames = [bytes([i % 256]) * length for i, length in enumerate(lengths)]
    batches = list(batches_of(frames, allowed))
    assert all(batches)
    assert all(len(batch) <= min(MAX_BATCH_FRAMES, allowed.max_batch_frames) for batch in batches)
    assert all(len(join_batch("q" * 128, batch)) + 16 <= allowed.max_message_bytes for batch in batches)
    sent = [frame for batch in batches for frame in batch]
    assert len(sent) == len(frames)
    for frame, out in zip(frames, sent, strict=True):
        if out != frame:
            # It fits no message; enough of it is sent for the broker to count it as too large.
            assert frame.startswith(out)
            assert len(frame) + 6 > allowed.max_message_bytes - 1024


def test_a_frame_that_fits_no_message_is_too_large_to_the_broker_as_well():
    huge = next(encoded([Frame("i", "t", "c" * 2_000_000)]))
    [[cut]] = batches_of([huge], Limits())
    assert len(cut) == Limits().max_frame_bytes + 1
    result = read_frame(cut, Limits().max_frame_bytes)
    assert isinstance(result, Unreadable)
    assert result.reason == "FRAME_TOO_LARGE"


def test_batches_are_filled_to_the_fast_size():
    frames = [b"x" * 100_000] * 10
    assert [len(batch) for batch in batches_of(frames)] == [5, 5]
    assert 5 * 100_000 < MAX_BATCH_BYTES < 6 * 100_000


def test_taking_empties_the_batch():
    filling = Filling(Limits())
    filling.add(b"a")
    assert (len(filling), filling.take(), len(filling), filling.take()) == (1, [b"a"], 0, [])


@pytest.mark.parametrize(
    ("frame", "field"),
    [
        (Frame("i", "t", "c", token_cost=-1), "frames[1].token_cost"),
        (Frame("i", "t", 5), "frames[1].content"),
        (Frame("i", "t", "c", kind="poem"), "frames[1].kind"),
        (None, "frames[1]"),
    ],
)
def test_what_cannot_be_encoded_is_refused_with_its_place(frame, field):
    with pytest.raises(InvalidArgument) as error:
        list(encoded([Frame("i", "t", "c"), frame]))
    assert [violation.field for violation in error.value.violations] == [field]
