"""The picture of the prompt has a line for every placed frame, top to bottom, and makes the fold a bow."""

from __future__ import annotations

import re

import pytest

from broker.cli.output import ASCII, Style
from broker.cli.prompt_picture import prompt_lines
from broker.cli.text import width


def _frames(lines):
    """(position, column of the rank, rank, tokens) of every frame's line."""
    found = []
    for line in lines:
        match = re.match(r"  │ *(\d+) ( *)(\d+) +(\d+) ", line)
        if match:
            found.append((int(match[1]), len(match[2]), int(match[3]), int(match[4])))
    return found


@pytest.mark.parametrize("count", [1, 2, 6, 7, 13, 40])
def test_every_placed_frame_has_a_line_in_prompt_order_further_right_the_worse_it_is(compose_by_hand, count):
    composition = compose_by_hand([("files", "symbols", "history")[i % 3] for i in range(count)])
    frames = _frames(prompt_lines(composition, Style()))
    assert [(position, rank) for position, _, rank, _ in frames] == [(p.position, p.rank) for p in composition.placed]
    columns = [column for _, column, _, _ in sorted(frames, key=lambda frame: frame[2])]
    assert columns == sorted(columns)


def test_seven_folded_frames_draw_a_bow(compose_by_hand):
    frames = _frames(prompt_lines(compose_by_hand(), Style()))
    assert [rank for _, _, rank, _ in frames] == [1, 3, 5, 7, 6, 4, 2]
    assert [column for _, column, _, _ in frames] == [0, 4, 8, 12, 10, 6, 2]


def test_no_line_is_wider_than_the_terminal(compose_by_hand):
    composition = compose_by_hand(["files", "symbols"] * 30, label=lambda *_: "src/漢字/" * 30)
    assert all(width(line) <= 100 for line in prompt_lines(composition, Style()))


def test_the_outer_texts_are_charged_in_sight(compose_by_hand):
    lines = list(prompt_lines(compose_by_hand(), Style()))
    assert any(re.search(r"preamble +20$", line) for line in lines)
    assert any(re.search(r"closing +5$", line) for line in lines)


def test_an_empty_prompt_is_its_preamble_and_closing(compose_by_hand):
    lines = list(prompt_lines(compose_by_hand([]), Style(glyphs=ASCII)))
    assert [line.split()[1] for line in lines[1:-1]] == ["preamble", "closing"]
    assert all(line.isascii() for line in lines)


def test_labels_cannot_leave_their_line(compose_by_hand):
    composition = compose_by_hand(["files"], label=lambda *_: "a\x1b[2J\nb")
    picture = "\n".join(prompt_lines(composition, Style()))
    assert "\x1b" not in picture
    assert "a⟦U+001B⟧[2J⟦U+000A⟧b" in picture
