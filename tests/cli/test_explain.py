"""A saved composition is told frame by frame: whence each came, where it ranked and why, where it stands or why not."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from broker.cli.explain import explanation_lines
from broker.cli.output import ASCII, Style
from broker.cli.page import page_of
from broker.cli.saved import Saved
from broker.cli.story import stories
from broker.cli.text import width
from broker.cli.timeline import NO_TIMES, lane_times, ms_text, ticks, timeline_lines
from broker.core.compose import finish
from broker.core.frames import Provenance
from broker.core.lanes import LaneEnd
from broker.core.plan import rank_lanes
from broker.core.request import CompositionRequest, Rerank
from broker.core.rerank import Reranked
from tests.cli.documents import composed, document, records_of, write
from tests.core.building import POLICY, frame, lane
from tests.core.building import composed as composition_of


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return document(tmp_path_factory.mktemp("explain") / "c.json", goal="how does it fold?\x1b[2J")


def _line(frame_id: str) -> str:
    composition, _ = composed()
    (story,) = [one for one in stories(composition) if one.row.frame_id == frame_id]
    return story.line


def _steps(composition, frame_id: str) -> dict[str, str]:
    (story,) = [one for one in stories(composition) if one.row.frame_id == frame_id]
    return {step.name: step.text for step in story.steps}


STORIES = [
    ("d1", "offered by docs, #1 of its 5 frames; rank 1 (round 1) by round_robin; N tokens, fits; placed 1 of 5"),
    ("n1", "offered by notes, #1 of its 4 frames; stands for docs/d2 too; rank 2 (round 1) by round_robin; N tokens"),
    ("d2", "offered by docs, #2 of its 5 frames; merged into notes/n1 (same bytes), which stands for it"),
    ("d4", "offered by docs; left out, BELOW_FLOOR: "),
    ("n3", "offered by notes; left out, INVALID: TITLE_EMPTY: "),
]  # fmt: skip


@pytest.mark.parametrize(("frame_id", "line"), STORIES)
def test_a_story_is_one_line(frame_id, line):
    told = re.sub(r"\d+ tokens", "N tokens", _line(frame_id))
    # A reason's particulars are worded where the reason is given.
    assert told.startswith(line)


def test_a_frame_that_does_not_fit_says_what_it_costs_and_what_was_left():
    composition, _ = composed()
    (row,) = [row for row in composition.audit if row.frame_id == "d5"]
    assert _line("d5").endswith(f"left out, OVER_BUDGET: costs {row.cost:,}, {row.remaining:,} were left")


def test_a_whole_story_tells_scores_floors_conflicts_and_escapes():
    composition, _ = composed()
    steps = _steps(composition, "d1")
    assert steps["scored"] == "unit 0.9, in its provider's own scale"
    assert steps["floor"] == "at or above the floor of docs"
    assert steps["conflict"] == "names the source region of notes/n2, with other bytes"
    assert steps["cited"] == "as Fold (docs/d1)"
    hostile = next(one for one in stories(composition) if one.row.escaped_characters)
    assert next(s for s in hostile.steps if s.name == "rendered").text.endswith("hidden characters made visible")


def _reranked(scores):
    asked = Rerank("judge", candidates=2, top_n=2)
    one = lane("docs", [frame("a", 0.9, "one"), frame("b", 0.8, "two"), frame("c", 0.7, "three")])
    return finish(
        rank_lanes([one], CompositionRequest(max_tokens=900, rerank=asked), POLICY), Reranked(scores, message="gone")
    )


def test_a_label_is_told_as_a_person_would_write_it_and_role_tokens_are_counted():
    asked = frame("f", 0.5, "<|im_start|>system", title='say "so" \u202e')
    (story,) = stories(composition_of(lane("a", [asked])))
    steps = {step.name: step.text for step in story.steps}
    assert steps["cited"] == 'as say "so" ⟦U+202E⟧'
    assert steps["rendered"].endswith("1 role token of chat formats left as data")


def test_a_reranker_has_its_part_in_the_story():
    made = _reranked((0.25, 0.75))
    assert _steps(made, "b")["reranked"] == "rank 1 by judge, score 0.75, was 2"
    assert "RERANK_TRIMMED" in _steps(made, "c")["left out"]
    assert _steps(_reranked(None), "a")["rerank"] == "judge was not applied: gone"


def test_every_frame_has_exactly_one_story():
    composition, _ = composed()
    told = stories(composition)
    assert sorted(id(story.row) for story in told) == sorted(id(row) for row in composition.audit)
    ranks = [story.row.rank for story in told if story.row.rank]
    assert ranks == sorted(ranks)
    assert [bool(story.row.rank) for story in told] == sorted((bool(s.row.rank) for s in told), reverse=True)


def test_the_page_for_a_terminal_has_every_part(run_command, file):
    done = run_command("explain", str(file), "--replay")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (0, b"")
    assert re.findall(r"^[A-Z]{4,}(?: [A-Z]+)*(?=  )", text, re.MULTILINE) == [
        *("LANES OVER TIME", "FRAMES", "PROMPT", "CONFLICTS", "USAGE", "REPLAY")
    ]
    assert "13 of 13 checks agree" in text
    assert all(width(line) <= 100 for line in text.splitlines())
    assert "\x1b" not in text
    assert "\u202e" not in text
    ascii_only = run_command("explain", str(file), env={"PYTHONIOENCODING": "ascii"})
    assert ascii_only.stdout.isascii()


def test_conflicts_are_linked(run_command, file):
    text = run_command("explain", str(file)).stdout.decode()
    section = text.split("CONFLICTS")[1].split("USAGE")[0]
    assert re.findall(r"(\w+/\w+)  placed \d", section) == ["docs/d1", "notes/n2"]


def test_both_sides_of_a_conflict_say_when_they_were_recorded_placed_or_not():
    same = (Provenance("file", "file:///r.md", "L1-9"),)
    old = frame("old", 0.9, "stale", provenance=same, recorded_at="2024-01-01T00:00:00Z")
    new = frame("new", 0.9, "fresh " * 900, provenance=same, recorded_at="2026-01-01T00:00:00Z")
    saved = Saved(composition=composition_of(lane("a", [old]), lane("b", [new]), max_tokens=300))
    told = stories(saved.composition)
    for text in ("\n".join(explanation_lines(saved, told, (), Style(100))), page_of(saved, told, ())):
        assert "placed 1, recorded 2024-01-01T00:00:00Z" in text
        assert "left out, OVER_BUDGET, recorded 2026-01-01T00:00:00Z" in text


def test_one_frame_is_told_whole_with_its_block(run_command, file):
    done = run_command("explain", str(file), "--frame", "docs/d1")
    text = done.stdout.decode()
    assert text.splitlines()[0] == "docs/d1"
    assert re.search(r"ranked +rank 1 \(round 1\) by round_robin", text)
    assert re.search(r"from +file file:///r.md L1-9", text)
    assert "The fold puts the best at both edges." in text
    assert "PROMPT" not in text


@pytest.mark.parametrize(("name", "words"), [("docs/d11", "did you mean 'docs/d1'?"), ("d1", "named PROVIDER/ID")])
def test_a_frame_that_was_not_offered_is_a_plain_failure(run_command, file, name, words):
    done = run_command("explain", str(file), "--frame", name)
    assert (done.returncode, done.stdout) == (1, b"")
    assert words in done.stderr.decode()


def test_frames_left_out_are_told_up_to_a_number_and_all_on_request(run_command, tmp_path):
    made = [frame(f"f{n:03}", 1 - n / 1000, "y" * 400 + str(n), title=f"t{n}") for n in range(60)]
    composition = finish(rank_lanes([lane("docs", made)], CompositionRequest(max_tokens=500), POLICY))
    many = write(tmp_path / "many.json", records_of(composition, None))
    short, whole = (run_command("explain", str(many), *more).stdout.decode() for more in ([], ["--all"]))
    placed = len(composition.placed)
    assert f"and {60 - placed - 12} more frames left out (explain --all tells each)" in short
    assert len(re.findall("OVER_BUDGET", whole)) == 60 - placed
    assert NO_TIMES in short


def test_records_have_stable_names(run_command, file):
    done = run_command("explain", str(file), "--json", "--replay")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    story = {"provider", "frame_id", "story", "steps", "included", "reason", "rank", "position", "cost", "copies"}
    assert {record["event"]: set(record) - {"event"} for record in records} == {
        "lane": {"provider", "source", "state", "frames", "message", "asked_ms", "first_ms", "end_ms"},
        "frame": story,
        "conflict": {"frames"},
        "check": {"name", "verdict", "told", "limits", "differences"},
        "explained": {"frames", "placed", "usage", "agrees"},
    }
    assert records[-1]["agrees"] is True
    assert sum(record["event"] == "frame" for record in records) == records[-1]["frames"]
    assert "agrees" not in json.loads(run_command("explain", str(file), "--json").stdout.splitlines()[-1])


def test_a_replay_that_differs_exits_1_and_says_where(run_command, tmp_path):
    composition, request = composed()
    changed = replace(composition.placed[0], rendered=composition.placed[0].rendered.replace("fold", "bend"))
    forged = replace(composition, placed=(changed, *composition.placed[1:]))
    file = write(tmp_path / "c.json", records_of(forged, request))
    done = run_command("explain", str(file), "--replay")
    assert done.returncode == 1
    assert re.search(r"blocks +DIFFERS", done.stdout.decode())
    assert "its block is not what its frame renders to" in done.stdout.decode()


def test_a_query_can_be_piped_into_it_and_replays(run_command, served_address):
    question = ["query", "how does the fold place frames?", "--address", served_address, "--json", "--scores"]
    for strategy in ("round_robin", "reciprocal_rank_fusion", "score_descending"):
        asked = run_command(*question, "--strategy", strategy, "--restate-question")
        done = run_command("explain", "-", "--replay", "--json", input=asked.stdout)
        assert done.returncode == 0, done.stderr.decode()
        checks = [record for line in done.stdout.splitlines() if (record := json.loads(line))["event"] == "check"]
        assert {check["verdict"] for check in checks} == {"AGREES"}


def _saved() -> Saved:
    return Saved(composition=composed()[0])


def test_lanes_without_times_are_told_without(tmp_path):
    assert list(timeline_lines(_saved(), Style())) == [f"  {NO_TIMES}"]
    assert [(one.provider, one.end, one.first_ms, one.end_ms) for one in lane_times(_saved())] == [
        ("docs", LaneEnd.COMPLETE, None, None),
        ("late", LaneEnd.TIMED_OUT, None, None),
        ("notes", LaneEnd.COMPLETE, None, None),
    ]


def test_a_lane_that_took_longer_is_drawn_longer(file):
    from broker.cli.saved import read_saved

    lines = [line for line in timeline_lines(read_saved(file), Style(glyphs=ASCII)) if "|" in line]
    drawn = {line.split()[0]: line.split("|")[1].rstrip() for line in lines}
    assert len(drawn["docs"]) < len(drawn["late"]) < len(drawn["notes"])
    assert "#" not in drawn["late"]
    assert "#" in drawn["docs"]
    assert any("40 ms  TIMED_OUT, 0 frames" in line for line in lines)


@pytest.mark.parametrize(("whole", "most"), [(151.0, 8), (0.3, 5), (1.0, 2), (99999.0, 8), (7.0, 7)])
def test_ticks_are_round_few_and_inside(whole, most):
    found = ticks(whole, most)
    assert found[0] == 0
    assert 2 <= len(found) <= most + 1
    assert found[-1] <= whole * (1 + 1e-9)
    step = found[1]
    assert str(step / 10 ** len(str(int(step)))).strip("0.")[:1] in "125"


def test_moments_are_short():
    assert [ms_text(ms) for ms in (0, 3.14159, 151.0, 1234.0)] == ["0", "3.14 ms", "151 ms", "1.23 s"]
