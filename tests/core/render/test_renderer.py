"""What every mode's blocks share: whose label it is, what is escaped, what is counted."""

from __future__ import annotations

import pytest

from broker.core.render.renderer import header_of, restated
from tests.core.render.making import candidate


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
