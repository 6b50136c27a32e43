"""A CommonMark parser finds one heading and one code block a frame, and in them what went in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from markdown_it import MarkdownIt

from broker.core.counting import BYTES_PER_4
from broker.core.frames import content_digest
from broker.core.render.markdown import Markdown
from broker.core.render.renderer import Block
from broker.core.render.seals import seal_of, sealer_of
from broker.core.request import Fence
from tests.core.render.making import KEY, candidate, measured, text, written

SEALED = Markdown(sealer_of(Fence.SEALED, KEY))
PLAIN = Markdown(None)


def block_of(renderer: Markdown = SEALED, **fields) -> Block:
    return measured(renderer, candidate(**fields))


def text_of(renderer: Markdown = SEALED, **fields) -> str:
    return written(renderer, candidate(**fields))


def test_a_sealed_section():
    fields = {"title": "A *title*", "kind": "doc", "id": "a_b.md:1"}
    text = text_of(**fields)
    seal = seal_of(content_digest("content"), KEY)
    assert text == (
        '## "A \\*title\\*" provider="a" id="a\\_b.md:1" kind="doc"\n\n'
        f"```text seal={seal}\ncontent\n```\n\nEnd of seal={seal}\n\n"
    )
    assert SEALED.seal_in(text) == seal
    assert block_of(**fields).label == "A *title*"


def test_a_plain_section_leaves_the_seal_out():
    text = text_of(PLAIN, title="Title")
    assert text == '## "Title" provider="a" id="id" kind="snippet"\n\n```text\ncontent\n```\n\n'
    assert PLAIN.seal_in(text) == ""


@pytest.mark.parametrize("run", [1, 2, 3, 4, 100, 5000])
def test_a_fence_is_longer_than_any_run_in_the_content(run: int):
    content = f"a\n{'`' * run}\n# b {'`' * (run - 1)}"
    fences = re.findall("^`{3,}(?=text|$)", text_of(content=content).replace(content, ""), re.MULTILINE)
    assert [len(fence) for fence in fences] == [max(3, run + 1)] * 2


@pytest.mark.parametrize(
    "label",
    ["![x](http://y/)", "[x]: http://y", "**b** _i_ `c` ~~s~~", "&lt;b&gt;", "a\\", "\\*", "$x$", "a | b", "<b>", "``"],
)
def test_nothing_in_a_heading_is_acted_on(label: str):
    tokens = MarkdownIt("commonmark").enable(["strikethrough", "table"]).parse(text_of(citation_label=label))
    heading = tokens[1]
    assert {child.type for child in heading.children} <= {"text", "text_special"}
    shown = "".join(child.content for child in heading.children)
    assert shown == f'"{block_of(citation_label=label).label}" provider="a" id="id" kind="snippet"'


@pytest.mark.parametrize("label", ["http://x.y/z", "see HTTPS://x", "www.x.y", "WWW.x.y"])
def test_a_bare_address_in_a_heading_is_no_link(label: str):
    # GitHub's rule asks for these very characters in a row.
    heading = text_of(citation_label=label).splitlines()[0]
    assert not re.search(r"[a-z]://|www\.", heading, re.IGNORECASE)


@given(text)
def test_the_question_cannot_swallow_the_evidence(question: str):
    for renderer in (SEALED, PLAIN):
        prompt = renderer.preamble(question) + text_of(renderer, title="Title") + renderer.closing(question)
        tokens = MarkdownIt("commonmark").parse(prompt)
        asked = 2 * bool(question.strip())
        assert [t.tag for t in tokens if t.type == "heading_open"] == ["h2"]
        assert sum(t.type == "fence" for t in tokens) == 1 + asked
        assert {t.type for t in tokens} <= {
            "heading_open", "inline", "heading_close", "fence", "paragraph_open", "paragraph_close"
        }  # fmt: skip


def test_the_texts_around_the_evidence_say_what_it_is():
    for renderer, sealed in ((SEALED, True), (PLAIN, False)):
        preamble, closing = renderer.preamble(""), renderer.closing("")
        assert "never instructions" in preamble
        assert ("seal" in preamble.casefold()) == sealed
        assert BYTES_PER_4.count(preamble) + BYTES_PER_4.count(closing) < 120
        assert (preamble, closing) == (renderer.preamble(" \n"), renderer.closing(" \n"))
