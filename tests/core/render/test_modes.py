"""Whatever frames hold, every mode's prompt reads back as exactly the frames that went in, at exactly their price."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.core.checks import Verdict
from broker.core.composition import Composition
from broker.core.counting import BYTES_PER_4
from broker.core.frames import Frame
from broker.core.render.modes import render_record, renderer_of
from broker.core.render.seals import seal_of
from broker.core.replay import replay
from broker.core.request import CompositionRequest, Fence, Placement, RenderMode
from tests.core.building import POLICY, composed, frame, lane
from tests.core.render.making import MARKUP, text
from tests.core.render.reading import Piece, read_prompt
from tests.core.render.test_escaping import NASTY
from tests.soaking import Soak

MODES = pytest.mark.parametrize("mode", RenderMode)
FENCES = st.sampled_from(Fence)


def pieces_of(composition: Composition, mode: RenderMode) -> list[Piece]:
    """What a reader must find, from the frames alone."""
    if mode is RenderMode.NONE:
        return []
    sealed = composition.summary.render.fence == Fence.SEALED.value
    return [
        Piece(
            label=one.frame.citation_label if one.frame.citation_label.strip() else one.frame.title,
            provider=one.provider,
            frame_id=one.frame.id,
            kind=None if mode is RenderMode.JSON else one.frame.kind,
            title=one.frame.title if mode is RenderMode.JSON else None,
            content=one.frame.content,
            seal=seal_of(one.frame.content_digest, POLICY.seal_key) if sealed else None,
        )
        for one in composition.placed
    ]


def as_lines(piece: Piece) -> Piece:
    """The piece as a Markdown parser gives it, which has one kind of line end."""
    return replace(piece, content=piece.content.replace("\r\n", "\n"))


def reads_back(composition: Composition, mode: RenderMode, count: int) -> None:
    assert len(composition.placed) == count
    found, expected = read_prompt(composition), pieces_of(composition, mode)
    if mode is RenderMode.MARKDOWN:
        expected = list(map(as_lines, expected))
    assert found == expected


frames_of_text = st.lists(st.tuples(text, text, text, text, text), min_size=1, max_size=4)


def frames_from(fields: list[tuple[str, str, str, str, str]]) -> list[Frame]:
    # Numbers make the ids and contents different, so that nothing is joined.
    return [
        Frame(f"{i}{one}", two, f"{three}{i}", 0.5, kind=four, citation_label=five)
        for i, (one, two, three, four, five) in enumerate(fields)
    ]


@MODES
@given(fields=frames_of_text, fence=FENCES)
def test_a_reader_gets_back_exactly_what_went_in(mode: RenderMode, fields, fence: Fence):
    frames = frames_from(fields)
    reads_back(composed(lane("a", frames), mode=mode, fence=fence), mode, len(frames))


@MODES
@settings(max_examples=30)
@given(fields=frames_of_text, question=text)
def test_a_question_is_no_part_of_the_evidence(mode: RenderMode, fields, question: str):
    frames = frames_from(fields)
    composition = composed(lane("a", frames), mode=mode, question="" if mode.data_alone else question)
    reads_back(composition, mode, len(frames))


@MODES
@settings(max_examples=30)
@given(fields=frames_of_text)
def test_a_frame_has_the_same_bytes_whatever_else_is_placed(mode: RenderMode, fields):
    frames = frames_from(fields)
    together = {one.frame.id: one.rendered for one in composed(lane("a", frames), mode=mode).placed}
    for one in frames:
        (alone,) = composed(lane("a", [one]), lane("b", [frame("more", 0.1, "more")]), mode=mode).placed[:1]
        assert alone.rendered == together[one.id]


@MODES
@settings(max_examples=30)
@given(fields=frames_of_text, fence=FENCES, question=st.sampled_from(["", "why?"]))
def test_what_is_rendered_is_what_is_charged(mode: RenderMode, fields, fence: Fence, question: str):
    frames = frames_from(fields)
    question = "" if mode.data_alone else question
    composition = composed(lane("a", frames), mode=mode, fence=fence, question=question)
    budget = composition.summary.budget
    assert budget.frames == sum(one.cost for one in composition.placed)
    assert budget.preamble == BYTES_PER_4.count(composition.preamble)
    assert budget.closing == BYTES_PER_4.count(composition.closing)
    assert BYTES_PER_4.count(composition.prompt) <= budget.used
    for one in composition.placed:
        charged = one.frame.content if mode is RenderMode.NONE else one.rendered + composition.separator
        assert one.cost == BYTES_PER_4.count(charged)
    again = composed(lane("a", frames), mode=mode, fence=fence, question=question, max_tokens=budget.used)
    assert again.prompt == composition.prompt


@MODES
@settings(max_examples=30)
@given(fields=frames_of_text, fence=FENCES, question=st.sampled_from(["", "why?"]))
def test_every_mode_works_out_again(mode: RenderMode, fields, fence: Fence, question: str):
    request = CompositionRequest(
        max_tokens=100_000, mode=mode, fence=fence, question="" if mode.data_alone else question
    )
    composition = composed(lane("a", frames_from(fields)), **_options(request))
    assert {check.name for check in replay(composition, request) if check.verdict is Verdict.DIFFERS} == set()


def _options(request: CompositionRequest) -> dict:
    return {
        "max_tokens": request.max_tokens,
        "mode": request.mode,
        "fence": request.fence,
        "question": request.question,
    }


SPLITS = [
    ("<", "/frame>"), ("</fra", "me>"), ("`", "``"), ("``", "`"), ("~~", "~"), ("\\", '"'), ("&lt", ";/frame>"),
    ("a\n```", "```\nb"), ("\n\n", "## x"), ('"},', '{"title":""'), ("⟦U+", "0041⟧"), ("\r", "\n"), ("#", "#"),
]  # fmt: skip


@MODES
@pytest.mark.parametrize(("end", "start"), SPLITS)
def test_nothing_arises_where_two_blocks_meet(mode: RenderMode, end: str, start: str):
    frames = [Frame("1", "t", f"a{end}", 0.9), Frame("2", f"{start} t", f"{start}b", 0.8)]
    reads_back(composed(lane("a", frames), mode=mode, placement=Placement.RANK_ORDER), mode, 2)


@MODES
def test_no_frames_are_a_prompt_too(mode: RenderMode):
    composition = composed(mode=mode)
    reads_back(composition, mode, 0)
    assert composition.prompt == composition.preamble + composition.closing


@MODES
@pytest.mark.parametrize("fence", Fence)
def test_the_audit_says_how_the_context_was_written(mode: RenderMode, fence: Fence):
    request = CompositionRequest(max_tokens=1, mode=mode, fence=fence, question="why?")
    record = render_record(request)
    assert record.mode == mode.value
    if mode.data_alone:
        assert (record.fence, record.restated_question) == ("", False)
        renderer = renderer_of(mode, None)
        assert "why?" not in renderer.preamble("why?") + renderer.closing("why?")
    else:
        assert (record.fence, record.restated_question) == (fence.value, True)


@pytest.mark.soak
@MODES
def test_frames_without_number_read_back(mode: RenderMode, soak: Soak):
    """The same over frames made at random, without hypothesis: an independent source of trouble."""
    chance = random.Random(f"frames of {mode.value}")
    parts = NASTY + MARKUP
    frames = compositions = largest = 0
    while frames < soak.count(35_000):
        fields = [
            tuple(
                "".join(chance.choice(parts) if chance.random() < 0.8 else _any(chance) for _ in range(size)) or "x"
                for size in (chance.randint(1, 8), chance.randint(1, 8), chance.randint(1, 60), 2, chance.randint(0, 8))
            )
            for _ in range(chance.randint(1, 40))
        ]
        made = frames_from(fields)
        fence = chance.choice(list(Fence))
        question = "" if mode.data_alone else chance.choice(["", fields[0][2]])
        composition = composed(lane("a", made), mode=mode, fence=fence, question=question)
        reads_back(composition, mode, len(made))
        frames += len(made)
        compositions += 1
        largest = max(largest, len(composition.prompt))
    soak.record(
        "parse-back", mode=mode.value, frames=frames, compositions=compositions, largest_prompt_chars=largest, failed=0
    )


def _any(chance: random.Random) -> str:
    point = chance.randrange(0x110000 - 0x800)
    return chr(point if point < 0xD800 else point + 0x800)
