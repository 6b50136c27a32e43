"""Each frame joins the earliest kept one that it matches directly, or is kept; nobody is pushed out by a claim."""

from __future__ import annotations

import gc

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from broker.core.audited import Reason
from broker.core.duplicates import MAX_CONFLICTS, first_copies, join_duplicates, joint_provenance
from broker.core.entries import Entry
from broker.core.frames import Provenance
from broker.core.request import Duplicates
from broker.core.score_descending import by_raw_score
from tests.core.building import entries, frame, lane

BYTES, SOURCE = Duplicates.SAME_BYTES, Duplicates.SAME_BYTES_OR_SOURCE
PLACES = [None, ("file:///r", ""), ("file:///r", "L1"), ("file:///s", "L1"), ("", "L1")]


def source(place: tuple[str, str] | None) -> tuple[Provenance, ...]:
    return () if place is None else (Provenance("index", "i"), Provenance("file", *place))


@st.composite
def some_lanes(draw: st.DrawFn) -> list[list[Entry]]:
    lanes = []
    for name in "abc":
        frames = [
            frame(f"{name}{n}", draw(st.sampled_from([0.1, 0.5, 0.9])), draw(st.sampled_from("uvwxyz")),
                  provenance=source(draw(st.sampled_from(PLACES))))
            for n in range(draw(st.integers(0, 6)))
        ]  # fmt: skip
        lanes.append(lane(name, frames))
    return entries(*lanes)


def stood_for(kept: list[Entry]) -> dict[Entry, Entry]:
    """Of every entry the one that stands for its evidence."""
    return {copy: entry for entry in kept for copy in entry.copies}


def match(one: Entry, other: Entry, mode: Duplicates) -> bool:
    """The rule, pair by pair."""
    if one.candidate.frame.content == other.candidate.frame.content:
        return True
    places = []
    for entry in (one, other):
        files = [step for step in entry.candidate.frame.provenance if step.type == "file"]
        places.append((files[0].uri, files[0].range) if files and files[0].uri else None)
    return mode is SOURCE and places[0] is not None and places[0] == places[1]


def walk_by_hand(lanes: list[list[Entry]], mode: Duplicates, by_score: bool) -> dict[Entry, Entry]:
    """The walk, comparing every pair."""
    steps = []
    for order, own in enumerate(lanes):
        fresh: list[Entry] = []
        for position, entry in enumerate(own):
            repeats = any(match(entry, other, mode) for other in fresh)
            fresh += [] if repeats else [entry]
            raw = entry.candidate.score._value if by_score else 0.0
            steps.append((-raw, len(fresh), repeats, order, position, entry))
    kept: list[Entry] = []
    stands_for: dict[Entry, Entry] = {}
    for *_, entry in sorted(steps, key=lambda step: step[:-1]):
        stands_for[entry] = next((other for other in kept if match(entry, other, mode)), entry)
        kept += [entry] if stands_for[entry] is entry else []
    return stands_for


@given(some_lanes(), st.sampled_from(Duplicates), st.booleans())
def test_the_walk_is_the_one_that_compares_every_pair(lanes, mode, by_score):
    expected = walk_by_hand(lanes, mode, by_score)
    kept = join_duplicates(lanes, mode, by_raw_score if by_score else None)
    every = [entry for own in lanes for entry in own]
    assert stood_for(kept) == expected
    assert kept == [entry for entry in every if expected[entry] is entry]
    for entry in every:
        assert (entry.reason == Reason.DUPLICATE) == (expected[entry] is not entry)
        assert entry.duplicate_of == (None if expected[entry] is entry else expected[entry].ref)
        assert match(entry, expected[entry], mode)


@given(some_lanes(), st.sampled_from(Duplicates))
def test_no_entry_leads_back_to_itself(lanes, mode):
    # They are kept from the garbage collector, which would have to free them if one did.
    for entry in join_duplicates(lanes, mode):
        assert not gc.is_tracked(entry)
        assert all(copy is not entry and not copy.others for copy in entry.others)
        assert not any(isinstance(value, Entry) for copy in entry.copies for value in astuple(copy))


@given(some_lanes(), st.sampled_from(Duplicates), st.booleans())
def test_a_lane_has_one_place_for_each_evidence_and_one_rank_for_each_kept_frame(lanes, mode, by_score):
    kept = stood_for(join_duplicates(lanes, mode, by_raw_score if by_score else None))
    for own in lanes:
        held: list[Entry] = []
        ranks = 0
        for entry in own:
            if kept[entry] in held:
                assert entry.lane_place == 0
            else:
                held.append(kept[entry])
                assert entry.lane_place == len(held)
            ranks += kept[entry] is entry
            assert entry.local_rank == (ranks if kept[entry] is entry else 0)
    for entry in set(kept.values()):
        firsts = first_copies(entry)
        assert firsts[0] is entry
        assert [copy.provider for copy in firsts] == list(dict.fromkeys(copy.provider for copy in entry.copies))


def test_no_frame_bridges_two_others_into_one():
    # The middle one has the bytes of the first and the source of the last, which match each other in nothing.
    first = frame("f", 0.9, "bytes", provenance=source(("file:///x", "")))
    middle = frame("m", 0.9, "bytes", provenance=source(("file:///y", "")))
    last = frame("l", 0.9, "other", provenance=source(("file:///y", "")))
    lanes = entries(lane("a", [first]), lane("b", [middle]), lane("c", [last]))
    kept = join_duplicates(lanes, SOURCE)
    assert [entry.candidate.frame.id for entry in kept] == ["f", "l"]


def test_what_repeats_a_frame_that_joined_another_stands_for_itself():
    # b's second frame repeats the bytes of its first, which went to a's for its source alone.
    rival = frame("rival", 0.9, "rival", provenance=source(("file:///x", "")))
    first = frame("first", 0.9, "bytes", provenance=source(("file:///x", "")))
    lanes = entries(lane("a", [rival]), lane("b", [first, frame("second", 0.5, "bytes")]))
    kept = join_duplicates(lanes, SOURCE)
    assert [entry.candidate.frame.id for entry in kept] == ["rival", "second"]
    assert [entry.lane_place for entry in lanes[1]] == [1, 2]


def test_only_the_first_file_counts_as_the_source():
    two = (Provenance("file", "file:///x"), Provenance("file", "file:///y"))
    lanes = entries(lane("a", [frame("f", 0.5, "1", provenance=two)]),
                    lane("b", [frame("g", 0.5, "2", provenance=two[1:])]))  # fmt: skip
    assert len(join_duplicates(lanes, SOURCE)) == 2


def test_the_kept_copy_has_everyones_provenance_once_its_own_first():
    shared, own, other = Provenance("file", "s"), Provenance("file", "o"), Provenance("file", "s", by="someone else")
    lanes = entries(
        lane("a", [frame("x", 0.5, "same", provenance=(shared, own, shared))]),
        lane("b", [frame("y", 0.5, "same", provenance=(other, shared))]),
    )
    (kept,) = join_duplicates(lanes, BYTES)
    assert joint_provenance(kept) == ((shared, own, other), 0)


def test_joint_provenance_is_capped_and_says_by_how_much():
    frames = [
        frame(f"f{n}", 0.5, "same", provenance=tuple(Provenance("file", f"{n}/{m}") for m in range(40)))
        for n in range(3)
    ]
    (kept,) = join_duplicates(entries(lane("a", frames)), BYTES)
    union, left_out = joint_provenance(kept)
    assert [step.uri for step in union] == [f"0/{m}" for m in range(40)] + [f"1/{m}" for m in range(24)]
    assert left_out == 120 - 64


def test_copies_cannot_swell_the_kept_frame_and_its_own_provenance_is_never_cut():
    large = tuple(Provenance("file", f"own{m}" + "x" * 10_000) for m in range(10))
    lent = tuple(Provenance("file", f"lent{m}" + "é" * 5_000) for m in range(10))
    lanes = entries(
        lane("a", [frame("x", 0.9, "same", provenance=large)]), lane("b", [frame("y", 0.5, "same", provenance=lent)])
    )
    (kept,) = join_duplicates(lanes, BYTES)
    assert joint_provenance(kept) == ((*large, *lent[:3]), 7)


def links(entry: Entry) -> list[str]:
    return [other.frame_id for other in entry.conflicts]


def test_one_source_with_two_contents_is_marked_on_both():
    same = source(("file:///r", "L1-9"))
    lanes = entries(
        lane("a", [frame("one", 0.5, "1", provenance=same), frame("apart", 0.5, "2")]),
        lane("b", [frame("two", 0.5, "3", provenance=same), frame("copy", 0.4, "1", provenance=same)]),
    )
    kept = join_duplicates(lanes, BYTES)
    assert {e.candidate.frame.id: links(e) for e in kept} == {"one": ["two"], "apart": [], "two": ["one"]}
    assert links(lanes[1][1]) == []


def test_conflict_links_are_the_nearest_and_few():
    same = source(("file:///r", ""))
    (own,) = entries(lane("a", [frame(f"{n:02}", 0.5, str(n), provenance=same) for n in range(40)]))
    join_duplicates([own], BYTES)
    everyone = [f"{n:02}" for n in range(40)]
    assert links(own[0]) == everyone[1:17]
    assert links(own[20]) == everyone[12:20] + everyone[21:29]
    assert links(own[39]) == everyone[23:39]
    assert {len(entry.conflicts) for entry in own} == {MAX_CONFLICTS}


def test_under_same_source_nothing_conflicts():
    same = source(("file:///r", ""))
    lanes = entries(
        lane("a", [frame("x", 0.5, "1", provenance=same)]), lane("b", [frame("y", 0.5, "2", provenance=same)])
    )
    (kept,) = join_duplicates(lanes, SOURCE)
    assert kept.conflicts == ()
