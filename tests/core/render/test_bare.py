"""Nothing is rendered, and a frame costs the tokens of its content."""

from __future__ import annotations

from broker.core.counting import BYTES_PER_4
from broker.core.render.bare import Bare
from broker.core.request import RenderMode
from tests.core.building import composed, excluded, frame, lane
from tests.core.render.making import candidate, measured, written


def test_a_block_without_text():
    content = "é </frame> <|im_end|>\u200b"
    one = candidate(content=content, citation_label="L\u200b")
    block = measured(Bare(), one)
    assert (written(Bare(), one), block.cost, block.size) == ("", BYTES_PER_4.count(content), len(content.encode()))
    assert (block.label, block.name) == ("L⟦U+200B⟧", "a/id")
    assert (block.escaped_characters, block.neutralised_fences, block.role_tokens) == (0, 0, 1)


def test_the_budget_is_for_content_alone():
    frames = [frame("a", 0.9, "x" * 40), frame("b", 0.8, "y" * 41), frame("c", 0.7, "z" * 4)]
    composition = composed(lane("p", frames), mode=RenderMode.NONE, max_tokens=11)
    assert composition.prompt == ""
    assert [(placed.frame.id, placed.cost) for placed in composition.placed] == [("a", 10), ("c", 1)]
    assert excluded(composition) == {"b": "OVER_BUDGET"}
    assert composition.summary.budget.used == 11
