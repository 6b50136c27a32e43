"""What every mode's blocks share: whose label it is, what is escaped, what is counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.counting import BYTES_PER_4
from broker.core.render.modes import renderer_of
from broker.core.render.renderer import Header, headers_of, restated
from broker.core.render.seals import sealer_of
from broker.core.request import Fence, RenderMode
from tests.core.render.making import KEY, candidate, measured, text, written


@pytest.mark.parametrize("label", ["", " ", "\t\n", "\u00a0\u3000"])
def test_a_blank_label_gives_way_to_the_title(label: str):
    (header,) = headers_of([candidate(title="Title", citation_label=label)], kinds=True)
    assert header == Header("a", "id", "Title", "snippet")


def test_each_value_may_stand_between_quotes():
    bad = 'x">\n\u202e'
    one = candidate(id=bad, kind=bad, citation_label=bad)
    shown = "x⟦U+0022⟧⟦U+003E⟧⟦U+000A⟧⟦U+202E⟧"
    hidden = len("\n\u202e")
    assert headers_of([one], kinds=True) == [Header("a", shown, shown, shown, 3 * hidden)]
    (without,) = headers_of([one], kinds=False)
    assert without == Header("a", shown, shown, "", 2 * hidden)
    assert without.name == f"a/{shown}"


def test_a_blank_question_is_none():
    assert restated(" \n\t") == restated("") == ""
    assert restated("why \u202e?") == "why ⟦U+202E⟧?"


class Characters:
    """A token a character."""

    name, version = "characters", ""

    def count(self, text: str, /) -> int:
        return len(text)


FIELDS = st.fixed_dictionaries(
    dict.fromkeys(("provider", "id", "kind", "title", "citation_label", "content"), text | st.just("plain"))
)


@given(st.sampled_from([mode for mode in RenderMode if mode is not RenderMode.NONE]), st.sampled_from(Fence), FIELDS)
def test_a_block_is_measured_as_it_is_written(mode, fence, fields):
    renderer, one = renderer_of(mode, sealer_of(fence, KEY)), candidate(**fields)
    block, shown = measured(renderer, one), written(renderer, one)
    assert block.size == len(shown.encode())
    assert block.cost == BYTES_PER_4.count(shown + renderer.separator)
    assert measured(renderer, one, Characters()).cost == len(shown + renderer.separator)


@given(st.sampled_from(RenderMode), st.sampled_from(Fence), st.lists(FIELDS, max_size=5), st.booleans())
def test_what_is_measured_together_is_measured_as_each_alone_is(mode, fence, frames, by_characters):
    counter = Characters() if by_characters else BYTES_PER_4
    renderer, several = renderer_of(mode, sealer_of(fence, KEY)), [candidate(**fields) for fields in frames]
    together = renderer.blocks(several, counter)
    assert together == [measured(renderer, one, counter) for one in several]
    digests = [one.digest for one in several]
    assert renderer.texts(together, digests) == [written(renderer, one) for one in several]


@pytest.mark.parametrize("mode", [mode for mode in RenderMode if mode is not RenderMode.NONE])
def test_a_content_that_needs_no_escape_is_held_once(mode):
    one = candidate(content="x" * 1000)
    assert measured(renderer_of(mode, sealer_of(Fence.SEALED, KEY)), one).content is one.frame.content
