"""A slip drops one frame and a lie the whole lane; every frame seen is kept account of, whatever came."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core import intake as intake_module
from broker.core.frames import Frame, Provenance, Relation, content_digest, content_tokens
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd, Unreadable
from broker.core.scores import UNIT, Direction, LocalScore, ScoreScale
from broker.core.slips import content_bytes
from tests.core.building import AMPLE, AS_SENT, frame, lane

TEXTS = st.one_of(
    st.sampled_from(["", "a", "é", "漢", "\U0001f600", "\ud800"]).flatmap(
        lambda one: st.sampled_from([1, 127, 128, 129, 171, 255, 256, 257, 342, 512, 513, 1024, 1025]).map(one.__mul__)
    ),
    st.text(max_size=3),
)
MOMENTS = st.sampled_from(
    ["", "", "2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "0001-01-01T23:59:59.5Z", "2024-01-01T24:00:00Z", "now"]
)
SCORES = st.one_of(
    st.sampled_from([None, 0.0, -0.0, 0.5, 1.0, 1.00001, 1.0001, -0.001, math.inf, -math.inf, math.nan]),
    st.sampled_from([sys.float_info.max, -sys.float_info.max]),
    st.floats(),
)
SCALES = st.sampled_from(
    [
        UNIT,
        AS_SENT,
        ScoreScale("distance", 0, math.inf, Direction.LOWER_IS_BETTER),
        ScoreScale("any", -math.inf, math.inf),
        ScoreScale("huge", -(10**400), 10**400),
    ]
)


FIELDS = {
    "id": TEXTS,
    "title": TEXTS,
    "citation_label": TEXTS,
    "score": SCORES,
    "kind": st.sampled_from(["kind-77", "\ud800"]),
    "provenance": st.sampled_from(["é", "\ud800"]).flatmap(
        lambda by: st.sampled_from([1, 64, 65]).map((Provenance("file", by=by),).__mul__)
    ),
    "relations": st.sampled_from(["é", "\ud800"]).flatmap(
        lambda rel: st.sampled_from([1, 64, 65]).map((Relation(rel),).__mul__)
    ),
    "valid_from": MOMENTS,
    "valid_to": MOMENTS,
    "recorded_at": MOMENTS,
    "token_cost": st.sampled_from([0, 1, 2]),
    "content_digest": st.sampled_from(["sha256:" + "0" * 64, "sha256:", content_digest("one"), "sha256:" + "A" * 64]),
}


@st.composite
def hostile_frames(draw: st.DrawFn) -> Frame | Unreadable:
    """Frames that are right in most things and wrong, or nearly so, in a few."""
    if draw(st.integers(0, 9)) == 9:
        return Unreadable(9, "sha256:" + "1" * 64, "FRAME_MALFORMED")
    content = draw(st.one_of(st.sampled_from(["one", "two", "漢字"]), TEXTS))
    wrong = draw(st.lists(st.sampled_from(sorted(FIELDS)), max_size=2, unique=True))
    return replace(
        Frame(draw(st.sampled_from("abcdef")), "title", content, 0.5, provenance=(Provenance("file"),)),
        **{field: draw(FIELDS[field]) for field in wrong},
    )


GOOD = Frame("f", "title", "content!", 0.5)
SLIPS = [
    ("ID_EMPTY", {"id": ""}),
    ("ID_TOO_LONG", {"id": "i" * 513}),
    ("ID_TOO_LONG", {"id": "é" * 257}),
    ("TITLE_EMPTY", {"title": ""}),
    ("TITLE_TOO_LONG", {"title": "t" * 1025}),
    ("CONTENT_EMPTY", {"content": ""}),
    ("LABEL_TOO_LONG", {"citation_label": "l" * 513}),
    ("PROVENANCE_TOO_MANY", {"provenance": (Provenance("file"),) * 65}),
    ("RELATIONS_TOO_MANY", {"relations": (Relation("calls"),) * 65}),
    ("SCORE_MISSING", {"score": None}),
    ("SCORE_NOT_FINITE", {"score": math.nan}),
    ("SCORE_NOT_FINITE", {"score": math.inf}),
    ("SCORE_NOT_FINITE", {"score": -math.inf}),
    ("SCORE_RANGE", {"score": 1.0001}),
    ("SCORE_RANGE", {"score": -0.001}),
    ("DIGEST_MALFORMED", {"content_digest": "d41d8cd98f00b204e9800998ecf8427e"}),
    ("DIGEST_MALFORMED", {"content_digest": "sha256:" + "A" * 64}),
    ("DIGEST_MALFORMED", {"content_digest": "sha256:" + "0" * 63}),
    ("TIMESTAMP_MALFORMED", {"valid_from": "yesterday"}),
    ("TIMESTAMP_MALFORMED", {"valid_to": "2024-13-01T00:00:00Z"}),
    ("TIMESTAMP_MALFORMED", {"recorded_at": "2023-02-29T00:00:00Z"}),
    ("TEXT_MALFORMED", {"content": "lone \ud800 surrogate"}),
    ("TEXT_MALFORMED", {"id": "\udfff"}),
    ("TEXT_MALFORMED", {"provenance": (Provenance("file", by="\ud800"),)}),
    ("TEXT_MALFORMED", {"relations": (Relation("calls", display_name="\ud800"),)}),
    ("TEXT_MALFORMED", {"valid_from": "\ud800"}),
]


@pytest.mark.parametrize(("reason", "fields"), SLIPS)
def test_a_slip_drops_that_frame_alone(reason, fields):
    made = lane("a", [replace(GOOD, id="before"), replace(GOOD, **fields), replace(GOOD, id="after")])
    assert made.end is LaneEnd.COMPLETE
    assert [candidate.frame.id for candidate in made.candidates] == ["before", "after"]
    (slip,) = made.slips
    assert slip.reason == reason
    assert len(slip.frame_id.encode()) <= 512
    assert made.offered == 3


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "i" * 512},
        {"title": "t" * 1024},
        {"citation_label": "l" * 512},
        {"provenance": (Provenance("file"),) * 64},
        {"relations": (Relation("calls"),) * 64},
        {"score": 1 + 2**-52},
        {"score": 1.00000001},
        {"score": -1e-17},
        {"token_cost": 2},
        {"content_digest": content_digest("content!")},
        {"kind": "kind-77"},
        {"uri": "javascript:x\n" + "u" * 10_000},
        {"recorded_at": "2024-02-29T23:59:59.999999999Z"},
    ],
)
def test_what_is_within_the_limits_is_kept_as_it_came(fields):
    sent = replace(GOOD, **fields)
    (candidate,) = lane("a", [sent]).candidates
    assert candidate.frame == sent
    assert candidate.tokens == 2
    assert candidate.digest == content_digest("content!")


def test_a_detail_never_holds_the_score_nor_the_content():
    for _, fields in SLIPS:
        (slip,) = lane("a", [replace(GOOD, **fields)]).slips
        assert "1.0001" not in slip.detail
        assert "content!" not in slip.detail


@pytest.mark.parametrize(
    ("score", "shown"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (1.0001, "1.0001")]
)
def test_a_slip_keeps_its_score_for_audits_that_ask(score, shown):
    (slip,) = lane("a", [replace(GOOD, score=score)]).slips
    assert slip.shown_score is not None
    assert slip.shown_score == shown or float(slip.shown_score) == score


@pytest.mark.parametrize("declared", [1, 3, 0, -1, 2**32 - 1, 2**31])
def test_a_wrong_cost_is_a_lie(declared):
    made = lane("a", [replace(GOOD, id="honest"), replace(GOOD, token_cost=declared)])
    assert made.end is LaneEnd.REFUSED
    assert made.lie is not None
    assert (made.lie.reason, made.lie.frame_id) == ("COST_MISMATCH", "f")
    assert made.lie.detail == f"declared {declared}, computed 2 from 8 bytes"
    assert made.offered == 2


def test_a_wrong_digest_is_a_lie_that_shows_both():
    made = lane("a", [replace(GOOD, content_digest="sha256:" + "0" * 64)])
    assert made.lie is not None
    assert made.lie.reason == "DIGEST_MISMATCH"
    assert "0" * 64 in made.lie.detail
    assert content_digest("content!") in made.lie.detail


def test_a_frame_that_is_both_a_slip_and_a_lie_is_a_lie():
    made = lane("a", [replace(GOOD, title="", token_cost=9)])
    assert made.end is LaneEnd.REFUSED
    assert made.offered == len(made.slips) == 1


def test_one_id_with_two_contents_is_a_lie_that_shows_both():
    made = lane("a", [frame("x", 0.9, "one"), frame("x", 0.9, "two")])
    assert made.lie is not None
    assert made.lie.reason == "EQUIVOCATION"
    assert content_digest("one") in made.lie.detail
    assert content_digest("two") in made.lie.detail


def test_a_frame_that_slipped_equivocates_with_nothing():
    made = lane("a", [frame("x", math.nan, "one"), frame("x", 0.9, "two")])
    assert made.end is LaneEnd.COMPLETE


def test_more_frames_than_granted_is_a_lie_at_the_first_one_too_many():
    intake = LaneIntake("a", UNIT, Grant(max_frames=64, max_tokens=10**6))
    read = []

    def endless():
        for number in range(10_000):
            read.append(number)
            yield frame(f"f{number}", content="x")

    lie = intake.take(endless())
    assert lie is not None
    assert lie.reason == "COUNT_EXCEEDED"
    assert "65" in lie.detail
    assert "64" in lie.detail
    assert intake.offered == 65
    assert len(read) == 65


def test_frames_that_cannot_be_read_count_against_the_grant():
    unreadable = Unreadable(9, "sha256:" + "1" * 64, "FRAME_MALFORMED")
    made = lane("a", [unreadable] * 3, grant=Grant(2, 10**6))
    assert made.lie is not None
    assert made.lie.reason == "COUNT_EXCEEDED"
    assert {slip.reason for slip in made.slips} == {"FRAME_MALFORMED"}


@pytest.mark.parametrize(("allowed", "detail"), [(0, "9 bytes"), (8, "9 bytes, 8 allowed")])
def test_a_frame_that_is_too_large_is_told_with_the_limit(allowed: int, detail: str):
    made = lane("a", [Unreadable(9, "sha256:" + "1" * 64, "FRAME_TOO_LARGE", allowed)])
    assert [slip.detail for slip in made.slips] == [detail]


def test_more_tokens_than_granted_is_a_lie():
    sent = [frame("one", content="x" * 240), frame("two", content="x" * 200)]
    assert lane("a", sent, grant=Grant(10, 110)).lie is None
    made = lane("a", sent, grant=Grant(10, 109))
    assert made.lie is not None
    assert made.lie.reason == "TOKENS_EXCEEDED"
    assert made.lie.detail == "sent 110 tokens so far, granted 109"


@pytest.mark.parametrize("place", [0, 3, 24])
def test_a_batch_with_a_lie_is_accounted_for_whole_and_no_further_batch_is_taken(place):
    intake = LaneIntake("a", UNIT, AMPLE)
    batch = [replace(GOOD, id=f"f{number}") for number in range(25)]
    batch[place] = replace(batch[place], token_cost=9)
    batch[-2] = replace(batch[-2], title="")
    lie = intake.take(batch)
    assert intake.take([replace(GOOD, id="much later")]) is lie
    assert intake.lie is lie
    assert lie.frame_id == f"f{place}"
    made = intake.close(LaneEnd.COMPLETE)
    assert made.end is LaneEnd.REFUSED
    assert {c.frame.id for c in made.candidates} | {slip.frame_id for slip in made.slips} == {f.id for f in batch}
    assert made.offered == 25


@pytest.mark.parametrize(
    ("end", "frames", "becomes"),
    [
        (LaneEnd.COMPLETE, 0, LaneEnd.EMPTY),
        (LaneEnd.COMPLETE, 1, LaneEnd.COMPLETE),
        (LaneEnd.EMPTY, 1, LaneEnd.COMPLETE),
        (LaneEnd.PARTIAL, 0, LaneEnd.TIMED_OUT),
        (LaneEnd.TIMED_OUT, 1, LaneEnd.PARTIAL),
        (LaneEnd.FAILED, 0, LaneEnd.FAILED),
        (LaneEnd.LOST, 1, LaneEnd.LOST),
    ],
)
def test_the_end_says_whether_anything_was_offered(end, frames, becomes):
    assert lane("a", [GOOD] * frames, end=end).end is becomes


def test_a_message_is_cut():
    assert len(LaneIntake("a", UNIT, AMPLE).close(LaneEnd.FAILED, "m" * 1000).message) == 256


def test_a_lane_that_sends_no_scores_must_not_send_one():
    made = lane("a", [frame("x", None), frame("y", 0.5)], AS_SENT)
    assert [candidate.frame.id for candidate in made.candidates] == ["x"]
    assert [slip.reason for slip in made.slips] == ["SCORE_UNEXPECTED"]


def test_the_sequence_counts_every_frame_offered_over_all_batches():
    intake = LaneIntake("a", AS_SENT, AMPLE)
    intake.take([frame("x", None), frame("", None)])
    intake.take([frame("y", None)])
    assert [candidate.sequence for candidate in intake.close(LaneEnd.COMPLETE).candidates] == [0, 2]


def taken(batches, scale, grant, *, ordinary: bool = True, **how) -> tuple[Lane, int]:
    """A lane after these batches, and how many frames were counted; unless ``ordinary``, none passes the short test."""
    with pytest.MonkeyPatch.context() as patched:
        if not ordinary:
            patched.setattr(intake_module, "SURE_ID", 0)
        intake = LaneIntake("a", scale, grant)
        for batch in batches:
            intake.take(batch, **how)
    return intake.close(LaneEnd.COMPLETE), intake.offered


grants = st.builds(Grant, st.integers(0, 8), st.sampled_from([0, 1, 3, 300, 10**6]))


@given(st.lists(hostile_frames(), max_size=8), SCALES, grants)
def test_the_short_test_of_ordinary_frames_changes_no_verdict(frames, scale, grant):
    batches = frames[:3], frames[3:]
    assert taken(batches, scale, grant) == taken(batches, scale, grant, ordinary=False)


@given(st.lists(hostile_frames(), max_size=8), SCALES, grants, st.booleans())
def test_a_batch_is_what_its_frames_are_one_by_one(frames, scale, grant, ordinary):
    one_by_one = [[frame] for frame in frames[: grant.max_frames + 1]]
    alone = taken(one_by_one, scale, grant, ordinary=ordinary, goes_on=True)
    assert taken([frames], scale, grant) == alone


@given(st.lists(hostile_frames(), max_size=8), SCALES, grants)
def test_texts_that_were_decoded_are_judged_as_any(frames, scale, grant):
    decoded = [one for one in frames if isinstance(one, Unreadable) or content_bytes(one) is not None]
    assert taken([decoded], scale, grant, decoded=True) == taken([decoded], scale, grant)


@given(st.lists(hostile_frames(), max_size=8), SCALES)
def test_a_candidate_is_what_its_frame_is(frames, scale):
    for candidate in taken([frames], scale, AMPLE)[0].candidates:
        sent = frames[candidate.sequence]
        score = None if sent.score is None else LocalScore("a", scale, sent.score)
        assert candidate.frame is sent
        assert (candidate.provider, candidate.digest) == ("a", content_digest(sent.content))
        assert candidate.tokens == content_tokens(len(sent.content.encode()))
        assert (candidate.score, repr(candidate.score)) == (score, repr(score))


@given(st.lists(hostile_frames(), max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_a_batch_may_be_taken_in_parts(frames, part, max_frames):
    whole, parts = (LaneIntake("a", UNIT, Grant(max_frames, 300)) for _ in range(2))
    parts.take(frames[:part])
    if parts.offered <= max_frames:
        parts.take(frames[part:], goes_on=True)
    whole.take(frames)
    assert parts.close(LaneEnd.COMPLETE) == whole.close(LaneEnd.COMPLETE)
