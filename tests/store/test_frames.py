"""Promise: what is packed of frames answers what a loop over them answers, and fingerprints pass over none of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broker.core.records import Filter, path_of
from broker.store import frames
from tests.store.values import KeptFrame, together

NAMES = st.sampled_from(["", "x", "./x", "a/x", "b/a/x#1", "a/x/", "/", "#", ".", "./", ".//x", "nul\x00", "💥/x"])
NAMES |= st.text("./#ax", max_size=6)
PROVIDERS = st.sampled_from(["a", "b"])
FRAMES = st.lists(
    st.builds(KeptFrame, PROVIDERS, NAMES, st.sampled_from(["", "DUPLICATE", "INVALID"]), NAMES), max_size=6
)
FILTERS = st.builds(
    Filter,
    provider=PROVIDERS | st.just(""),
    frame_id=st.just("") | NAMES,
    placed=st.none() | st.booleans(),
    reason=st.sampled_from(["", "DUPLICATE", "NONE"]),
    document=st.just("") | NAMES,
)


@given(FRAMES, FILTERS)
@example([KeptFrame("a", "f", "", "docs/x")], Filter(document="./docs/x", placed=True))
def test_packed_frames_answer_as_a_loop_over_them_does(offered: Sequence[KeptFrame], wanted: Filter) -> None:
    groups = frames.grouped(together(offered))
    expected = any(_meant(wanted, frame) for frame in offered)
    assert frames.offered(frames.packed(groups), wanted) == expected
    if expected:
        prints = frames.fingerprints(groups)
        assert all(any(each in prints for each in one_of) for one_of in frames.sought(wanted))


@given(FRAMES)
def test_placed_frames_are_those_without_a_reason(offered: Sequence[KeptFrame]) -> None:
    expected = {(frame.provider, frames.same_text(frame.frame_id)) for frame in offered if not frame.reason}
    assert frames.placed(frames.packed(frames.grouped(together(offered)))) == expected


MANY = [KeptFrame("a", f"docs/{n}.md#L1", "", f"file:///docs/{n}.md") for n in range(100)]


def test_fingerprints_of_other_names_are_not_there() -> None:
    """They are the same in every process, too: what one kept, another finds."""
    prints = frames.fingerprints(frames.grouped(together(MANY)))
    # Ids, documents, and one of every frame.
    assert len(prints) == 8 * (100 + 100 + 1)
    absent = [Filter(frame_id=f"docs/{n}.md#L{1 + n // 50}") for n in range(50, 150)]
    assert not any(each in prints for wanted in absent for one_of in frames.sought(wanted) for each in one_of)
    name = b"\x8a\xfc\x97\x5f"
    assert list(frames.sought(Filter(frame_id="docs/7.md"))) == [[name]]
    assert list(frames.sought(Filter(frame_id="docs/7.md", placed=True))) == [[name + b"\x01"]]
    assert list(frames.sought(Filter(frame_id="docs/7.md", reason="DUPLICATE"))) == [[name + b"\x00\x9f"]]
    assert list(frames.sought(Filter(frame_id="docs/7.md", provider="a"))) == [[b"\x43\xbe" + name]]


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ({"provider": "a"}, True),
        ({"provider": "b"}, False),
        ({"placed": True}, True),
        ({"placed": False}, False),
        ({"reason": "INVALID"}, False),
        ({"provider": "b", "placed": False, "reason": "DUPLICATE"}, False),
    ],
)
@pytest.mark.parametrize("named", [{"frame_id": "docs/7.md#L1"}, {"document": "docs/7.md"}])
def test_all_that_is_said_of_a_frame_is_sought_of_one_frame(
    named: dict[str, Any], others: dict[str, Any], found: bool
) -> None:
    """A composition that holds it of different frames is not unpacked for nothing."""
    assert _may_be_found(Filter(**named, **others)) == found


def test_a_fate_is_sought_of_the_provider_that_is_asked_about() -> None:
    assert _may_be_found(Filter(placed=False))
    assert _may_be_found(Filter(provider="b", reason="OVER_BUDGET"))
    assert not _may_be_found(Filter(provider="b", reason="DUPLICATE"))
    assert not _may_be_found(Filter(provider="b", placed=True))


def _may_be_found(wanted: Filter) -> bool:
    """Among many placed frames of one provider, and one of each of two that were left out."""
    left_out = [KeptFrame("b", "docs/8.md#L1", "OVER_BUDGET"), KeptFrame("a", "9", "DUPLICATE")]
    prints = frames.fingerprints(frames.grouped(together([*MANY, *left_out])))
    return all(any(each in prints for each in one_of) for one_of in frames.sought(wanted))


def _meant(wanted: Filter, frame: KeptFrame) -> bool:
    own, source = frames.same_text(frame.frame_id), frames.same_text(frame.source)
    document = frames.same_text(wanted.document)
    own_path, path = path_of(source or own), path_of(document)
    of_document = own_path == path or own_path.endswith(f"/{path}")
    return (
        wanted.provider in ("", frame.provider)
        and (not wanted.frame_id or own == frames.same_text(wanted.frame_id))
        and wanted.placed in (None, frame.reason == "")
        and wanted.reason in ("", frame.reason)
        and (not document or own == document or (path != "" and of_document))
    )
