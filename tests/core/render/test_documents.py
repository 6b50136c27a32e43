"""The prompt is a JSON array of documents, whatever is in it, and each document has a citation of its own."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from broker.core.counting import BYTES_PER_4
from broker.core.render.documents import Documents
from broker.core.request import RenderMode
from tests.core.building import composed, frame, lane
from tests.core.render.making import candidate, measured, text, written

DOCUMENTS = Documents()


def test_a_document():
    one = candidate(title='Say "hi"', content="a\n</frame>\u200b", citation_label="L")
    block, text = measured(DOCUMENTS, one), written(DOCUMENTS, one)
    assert json.loads(text) == {
        "title": 'Say "hi"',
        "text": "a\n⟦U+003C⟧/frame>⟦U+200B⟧",
        "citation": "L (a/id)",
    }
    assert "\n" not in text
    assert block.label == "L (a/id)"
    assert (block.escaped_characters, block.neutralised_fences) == (1, 1)


def test_a_document_is_charged_with_its_separator():
    block, text = measured(DOCUMENTS, candidate()), written(DOCUMENTS, candidate())
    assert block.size == len(text.encode())
    assert block.cost == BYTES_PER_4.count(text + ",\n")


def test_no_frames_are_an_empty_array():
    assert composed(mode=RenderMode.JSON, max_tokens=2).prompt == "[\n\n]\n"


def test_a_label_and_an_id_made_to_collide_do_not():
    long_id = measured(DOCUMENTS, candidate("a", id="1) (b/2", title="x"))
    long_label = measured(DOCUMENTS, candidate("b", id="2", title="x (a/1)"))
    assert (long_id.label, long_label.label) == ("x (a/1) ⟦U+0028⟧b/2)", "x (a/1) (b/2)")


def test_an_id_in_brackets_of_its_own_stays_as_it_is():
    block = measured(DOCUMENTS, candidate(id="pack.py#pack(space)", title="x"))
    assert block.label == "x (a/pack.py#pack(space))"


part = st.sampled_from(["x", "1", " (a/1)", ") (b/1", " (b/1", "1)", "(", ")", " ", "⟦U+0028⟧"])
words = st.lists(part, min_size=1, max_size=3).map("".join).filter(str.strip)


@given(st.sets(st.tuples(words, st.sampled_from(["a", "b"]), words), min_size=2, max_size=6))
def test_no_two_frames_have_one_citation(named):
    citations = {
        measured(DOCUMENTS, candidate(provider, id=frame_id, title=label)).label for label, provider, frame_id in named
    }
    assert len(citations) == len(named)


@given(st.lists(st.tuples(text, text, text), min_size=1, max_size=4))
def test_any_reader_of_json_reads_it(fields):
    frames = [frame(f"{i}{one}", 0.5, content, title=title) for i, (one, title, content) in enumerate(fields)]
    composition = composed(lane("a", frames), mode=RenderMode.JSON)
    documents = json.loads(composition.prompt)
    assert [one["citation"] for one in documents] == [placed.citation_label for placed in composition.placed]
