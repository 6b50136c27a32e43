"""Frames are named by label or as provider/id, and the stronger observation brings the weaker ones along."""

from __future__ import annotations

import pytest

from broker.core.frames import FrameRef
from broker.core.observations import named, observations
from broker.core.records import Observation
from broker.errors import InvalidArgument
from tests.cli.conftest import make_composition
from tests.cli.documents import HOSTILE, composed

FOLD, ROBIN = FrameRef("docs", "d1"), FrameRef("notes", "n4")


@pytest.mark.parametrize(
    ("name", "ref"),
    [("Round robin", ROBIN), ("notes/n4", ROBIN), ("docs/d1", FOLD), (f"docs/{HOSTILE}", FrameRef("docs", HOSTILE))],
)
def test_a_placed_frame_has_two_names(name, ref):
    assert named(composed()[0], name) == ref


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Round robbin", "no frame 'Round robbin'; did you mean 'Round robin'?"),
        ("docs/d5", "placed no frame 'docs/d5'"),
        ("\x1b[2J", r"no frame '\x1b[2J'"),
    ],
)
def test_what_was_not_placed_is_refused(name, words):
    with pytest.raises(InvalidArgument, match="placed no frame") as caught:
        named(composed()[0], name)
    assert words in caught.value.message
    assert caught.value.reason == "FRAME_NOT_PLACED"


def test_a_label_of_several_frames_names_none_of_them():
    composition = make_composition(["files", "symbols"], label=lambda *_: "same")
    with pytest.raises(InvalidArgument) as caught:
        named(composition, "same")
    assert caught.value.reason == "LABEL_AMBIGUOUS"
    assert "files/files-1, symbols/symbols-1" in caught.value.message
    assert named(composition, "symbols/symbols-1") == FrameRef("symbols", "symbols-1")


def test_what_was_seen_is_coherent_and_said_once_for_each_frame():
    composition = make_composition(["files", "symbols", "history"])
    files, symbols, history = (FrameRef(name, f"{name}-1") for name in ("files", "symbols", "history"))
    seen = observations(composition, selected=[files, symbols], rendered=[symbols, history], cited=[history, history])
    assert {(one.provider, one.selected, one.rendered, one.cited) for one in seen} == {
        ("files", True, False, False),
        ("symbols", True, True, False),
        ("history", True, True, True),
    }
    assert len(seen) == 3
    assert observations(composition) == []
    assert Observation("files", "files-1", True, True, False) in observations(composition, rendered=[files])
