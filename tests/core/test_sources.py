"""A frame's source is the document that it names, by whichever of its copies names one."""

from __future__ import annotations

from broker.core.duplicates import join_duplicates
from broker.core.frames import Provenance
from broker.core.request import Duplicates
from broker.core.sources import Sources, source_of, sources_named
from tests.core.building import composed, entries, excluded, frame, lane, placed, row

FILE, OTHER = Provenance("file", "file:///one", "L1"), Provenance("file", "file:///two")
INDEX = Provenance("index", "https://index")


def kept(*lanes):
    return join_duplicates(entries(*lanes), Duplicates.SAME_BYTES)


def test_the_first_file_that_it_comes_from_or_else_its_own_uri():
    frames = [
        frame("a", 0.9, provenance=(INDEX, FILE, OTHER), uri="file:///own"),
        frame("b", 0.8, provenance=(INDEX,), uri="file:///own"),
        frame("c", 0.7, provenance=(Provenance("file", ""),), uri="file:///own"),
        frame("d", 0.6),
    ]
    expected = ["file:///one", "file:///own", "file:///own", ""]
    assert [source_of(entry) for entry in kept(lane("a", frames))] == expected
    assert sources_named(frames) == expected


def test_a_copy_may_name_the_document_that_the_kept_one_does_not():
    (entry,) = kept(lane("a", [frame("x", 0.9)]), lane("b", [frame("x", 0.9, provenance=(FILE,))]))
    assert (entry.provider, source_of(entry)) == ("a", "file:///one")


def test_only_a_source_that_had_its_turn_waits():
    first, second, elsewhere = kept(
        lane("a", [frame(i, 0.5, provenance=(p,)) for i, p in (("a", FILE), ("b", FILE), ("c", OTHER))])
    )
    sources = Sources(1)
    assert not sources.waits(first)
    sources.took(first)
    assert sources.waits(second)
    assert not sources.waits(elsewhere)


def test_no_document_takes_every_place():
    book = [frame(f"b{n}", 0.9 - n / 100, provenance=(FILE,)) for n in range(5)]
    lanes = [lane("a", [*book, frame("note", 0.1)]), lane("b", [frame("other", 0.1, provenance=(OTHER,))])]
    assert set(placed(composed(*lanes, max_frames=4))) == {"b0", "other", "b1", "b2"}
    composition = composed(*lanes, max_frames=4, max_frames_per_source=2)
    assert set(placed(composition)) == {"b0", "other", "b1", "note"}
    assert {reason for name, reason in excluded(composition).items() if name[0] == "b"} == {"SOURCE_FRAME_LIMIT"}
    assert row(composition, "a", "b2").detail == (
        "2 frames of 'file:///one' were taken before it; afterwards: 4 frames were taken"
    )
    assert len(placed(composed(*lanes, max_frames_per_source=2))) == 7, "with room for all, all come back"
