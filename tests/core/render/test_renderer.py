"""What every mode's blocks share: whose label it is, what is escaped, what is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.counting import BYTES_PER_4
from broker.core.render.modes import renderer_of
from broker.core.render.renderer import header_of, restated
from broker.core.render.seals import sealer_of
from broker.core.request import Fence, RenderMode
from tests.core.render.making import KEY, candidate, text, written


@pytest.mark.parametrize("label", ["", " ", "\t\n", "\u00a0\u3000"])
def test_a_blank_label_gives_way_to_the_title(label: str):
    assert header_of(candidate(title="Title", citation_label=label)).label.text == "Title"


def test_each_value_may_stand_between_quotes():
    bad = 'x">\n\u202e'
    header = header_of(candidate(id=bad, kind=bad, citation_label=bad))
    shown = "x⟦U+0022⟧⟦U+003E⟧⟦U+000A⟧⟦U+202E⟧"
    assert [header.frame_id.text, header.kind.text, header.label.text] == [shown] * 3
    assert header.name == f"a/{shown}"


def test_a_blank_question_is_none():
    assert restated(" \n\t") == restated("") == ""
    assert restated("why \u202e?") == "why ⟦U+202E⟧?"


class Characters:
    """A token a character."""

    name, version = "characters", ""

    def count(self, text: str, /) -> int:
        return len(text)


@given(
    st.sampled_from([mode for mode in RenderMode if mode is not RenderMode.NONE]),
    st.sampled_from(Fence),
    st.fixed_dictionaries(dict.fromkeys(("provider", "id", "kind", "title", "citation_label", "content"), text)),
)
def test_a_block_is_measured_as_it_is_written(mode, fence, fields):
    renderer, one = renderer_of(mode, sealer_of(fence, KEY)), candidate(**fields)
    block, shown = renderer.block(one, BYTES_PER_4), written(renderer, one)
    assert block.size == len(shown.encode())
    assert block.cost == BYTES_PER_4.count(shown + renderer.separator)
    assert renderer.block(one, Characters()).cost == len(shown + renderer.separator)


@pytest.mark.parametrize("mode", [mode for mode in RenderMode if mode is not RenderMode.NONE])
def test_a_content_that_needs_no_escape_is_held_once(mode):
    one = candidate(content="x" * 1000)
    assert renderer_of(mode, sealer_of(Fence.SEALED, KEY)).block(one, BYTES_PER_4).content is one.frame.content
