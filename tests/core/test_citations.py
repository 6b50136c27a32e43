"""Every label that an answer cites is found in whatever form it stands, and what names nothing is called invented."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.citations import MOST_COMPARED, Near, verify_citations
from broker.core.composition import Composition
from broker.core.outline import outlined
from broker.core.request import RenderMode
from tests.core.building import composed, frame, lane

LABELS = (
    "README.md L1-9",
    "src/pack.py L57-87",
    "How the fold works",
    "Placement",
    'The "fold"',
    "list[int] and; more",
)


def composition(*labels: str, left_out: tuple[str, ...] = ()) -> Composition:
    """A frame of ``docs`` for each label; those left out are named and stand nowhere."""
    frames = [frame(f"f{index}", 1 - index / 1000, f"text {index}", title=label) for index, label in enumerate(labels)]
    frames += [frame(name, 0.0, "x" * 4000, title=name) for name in left_out]
    return composed(lane("docs", frames), max_tokens=900)


def cited(answer: str, *labels: str) -> dict[str, int]:
    """How often each label is cited; nothing may be invented or ambiguous."""
    report = verify_citations(answer, composition(*(labels or LABELS)))
    assert not report.invented
    assert not report.ambiguous
    return {one.citation.label: one.times for one in report.cited}


def invented(answer: str, *labels: str) -> list[str]:
    return [one.text for one in verify_citations(answer, composition(*(labels or LABELS))).invented]


@pytest.mark.parametrize(
    "answer",
    [
        "It is so [README.md L1-9].",
        "It is so [ README.md L1-9 ].",
        "It is so 【README.md L1-9】",
        "It is so (README.md L1-9).",
        "It is so (see README.md L1-9, and more).",
        'As "README.md L1-9" says',
        "As “README.md L1-9” says",
        "As `README.md L1-9` says",
        "As **README.md L1-9** says",
        "[`README.md L1-9`]",
        "['README.md L1-9']",
        "As README.md L1-9 says",
        "README.md L1-9",
        "README.md L1-9: the fold",
        "wrapped over lines [README.md\n   L1-9]",
        "> quoted [README.md L1-9].",
        "[see README.md L1-9]",
        "[README.md L1-9, p. 4]",
        "[README.md L1-9](http://example.org/a)",
        "[docs/f0]",
        "README.md L1-9 (docs/f0)",
        "[README.md L1-9 (docs/f0)]",
    ],
)
def test_a_label_is_found_in_any_form(answer):
    assert cited(answer) == {"README.md L1-9": 1}


def test_several_labels_in_one_bracket_are_all_found():
    answer = "[README.md L1-9; src/pack.py L57-87, How the fold works and list[int] and; more]"
    assert set(cited(answer)) == {*LABELS} - {"Placement", 'The "fold"'}


def test_repetitions_are_counted_with_their_lines():
    report = verify_citations("[README.md L1-9]\n\nREADME.md L1-9 and [README.md L1-9]\n", composition(*LABELS))
    (one,) = report.cited
    assert (one.times, one.bare, one.lines) == (3, 1, (1, 3))


@pytest.mark.parametrize(
    "answer",
    [
        "README.md L1-99",
        "README.md L1-9.5",
        "my-README.md L1-9",
        "docs/README.md L1-9",
        "README.md L1-9:12",
        "x/src/pack.py L57-87",
    ],
)
def test_a_part_of_something_longer_is_no_citation(answer):
    assert cited(answer) == {}


def test_a_label_of_one_word_counts_between_marks_alone():
    assert cited("Placement is a word that any sentence may hold.") == {}
    assert cited("As [Placement] and 'Placement' and *Placement* say") == {"Placement": 3}


def test_an_escaped_label_is_found_as_it_stands_and_as_it_was_meant():
    label = LABELS[4].replace('"', "⟦U+0022⟧")
    assert cited(f'[{label}] and [The "fold"]') == {label: 2}


@pytest.mark.parametrize(
    "answer", ["so it is[12].", "so it is [12].", "(as said)[12]", "[^12]", "【12】", "[see 12]", "12 [12]"]
)
def test_numbers_are_claims_too(answer):
    assert invented(answer) == ["see 12" if "see" in answer else "12"]


def test_what_names_nothing_is_invented_once_with_its_lines():
    report = verify_citations("[12]\n[README.md L1-8; src/nope.py]\n[12]", composition(*LABELS))
    assert [(one.text, one.times, one.lines) for one in report.invented] == [
        ("12", 2, (1, 3)),
        ("README.md L1-8", 1, (2,)),
        ("src/nope.py", 1, (2,)),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "types such as list[str] and dict[str, Any]",
        "`[no]` and ``[no]``",
        "```python\n[no]\n```",
        "~~~\n[no]\n",
        "- [x] done\n- [ ] open",
        "he wrote [sic], [...], […], [emphasis added]",
        "[a link](https://example.org) and [another](#part)",
        "[a]: https://example.org",
        "",
    ],
)
def test_code_links_and_asides_claim_nothing(answer):
    assert invented(answer) == []


def test_a_false_frame_of_a_provider_that_is_there_is_invented_without_brackets_too():
    assert invented("Fold (docs/f77) says so, (other/f77) is no provider's") == ["docs/f77"]


@pytest.mark.parametrize(
    ("text", "near", "nearest"),
    [
        ("readme.md l1-9", Near.CASE, "README.md L1-9"),
        ("README.md L1–9", Near.TYPOGRAPHY, "README.md L1-9"),
        ("README.md L1-8", Near.SIMILAR, "README.md L1-9"),
        ("big.md", Near.LEFT_OUT, "docs/big.md"),
        ("docs/big.md", Near.LEFT_OUT, "docs/big.md"),
        ("nothing like it at all", None, ""),
    ],
)
def test_what_an_invented_text_comes_near_to_is_said(text, near, nearest):
    (one,) = verify_citations(f"[{text}]", composition(*LABELS, left_out=("big.md",))).invented
    assert (one.near, one.nearest) == (near, nearest)
    assert one.detail == ("OVER_BUDGET" if near is Near.LEFT_OUT else "")


def test_case_is_exact_where_labels_differ_in_nothing_else():
    assert cited("[Notes A]", "Notes A", "notes a") == {"Notes A": 1}


def test_a_shared_label_is_ambiguous_until_its_frame_is_named():
    shared = composition("Fold it", "Fold it", "Other one")
    report = verify_citations("[Fold it] and [Fold it (docs/f1)]", shared)
    assert [(one.label, [c.frame.frame_id for c in one.citations]) for one in report.ambiguous] == [
        ("Fold it", ["f0", "f1"])
    ]
    assert [one.citation.frame.frame_id for one in report.cited] == ["f1"]
    assert not report.invented
    assert [citation.label for citation in report.uncited] == ["Other one"]


@pytest.mark.parametrize("mode", RenderMode)
@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("form", ["[{}]", "As {} says", "【{}】", "[see {}; nothing\nlike it]"])
def test_in_every_mode_a_label_alone_cites_its_frame_whether_or_not_content_was_kept(mode, kept, form):
    frames = [
        frame(f"f{n}", 0.9 - n / 9, f"t{n}", citation_label=label) for n, label in enumerate(("T-1", "S-2", "S-2"))
    ]
    made = composed(lane("docs", frames), mode=mode)
    made = made if kept else outlined(replace(made, placed=()))
    for text in ("T-1", "T-1 (docs/f0)", "docs/f0"):
        report = verify_citations(form.format(text), made)
        assert [one.citation.frame.frame_id for one in report.cited] == ["f0"]
        assert [one.text for one in report.invented] == (["nothing like it"] if "nothing" in form else [])
    (shared,) = verify_citations(form.format("S-2"), made).ambiguous
    assert [citation.frame.frame_id for citation in shared.citations] == [
        one.frame.frame_id for one in made.citations if one.frame.frame_id != "f0"
    ]
    (near,) = verify_citations("[t-1]", made).invented
    assert (near.near, near.nearest) == (Near.CASE, "T-1")


@pytest.mark.parametrize("mode", RenderMode)
@pytest.mark.parametrize("name", ["docs/f1", "docs/f7"])
@pytest.mark.parametrize("form", ["[{}]", "As {} says", "[see {}]", "wrapped: {}."])
def test_a_label_with_the_name_of_another_frame_or_of_none_cites_neither(mode, name, form):
    frames = [frame(f"f{n}", 0.9 - n / 9, f"t{n}", title=f"Note {n}") for n in range(3)]
    made = composed(lane("docs", frames), mode=mode)
    report = verify_citations(form.format(f"Note 0 ({name})") + " And [Note 2].", made)
    assert [one.text for one in report.invented] == [f"Note 0 ({name})"]
    assert [one.citation.frame.frame_id for one in report.cited] == ["f2"]
    assert not verify_citations("Note 0 (other/f1), [Note 1] (docs/f2)", made).invented, "two citations, and an aside"


def test_frames_never_cited_are_told_in_prompt_order():
    made = composition(*LABELS)
    report = verify_citations("[Placement]", made)
    assert [c.label for c in report.uncited] == [c.label for c in made.citations if c.label != "Placement"]


words = st.from_regex(r"[A-Za-z]{2,6}( [a-z]{2,6}){1,2}", fullmatch=True)


@given(st.lists(words, min_size=1, max_size=6, unique_by=str.casefold), st.data())
def test_an_answer_made_of_citations_gives_exactly_those(labels, data):
    """An oracle: the answer is written from a list of cited labels and of invented ones, each in a random form."""
    made = composition(*labels)
    there = data.draw(st.lists(st.sampled_from(labels), max_size=8))
    false = data.draw(st.lists(st.integers(100, 999).map(lambda n: f"nothing-{n}"), max_size=4))
    forms = st.sampled_from(["so it is [{}].", "\n[{}]\n", "and 【{}】", "[{}; {}]"])
    answer = " ".join(data.draw(forms).format(text, text) for text in [*there, *false])
    report = verify_citations(answer, made)
    assert {one.citation.label for one in report.cited} == set(there)
    assert {one.text for one in report.invented} == set(false)
    assert {c.label for c in report.uncited} == set(labels) - set(there)


@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=4, unique=True))
def test_no_answer_and_no_label_breaks_it_and_every_frame_is_accounted_for(answer, labels):
    made = composed(lane("docs", [frame(f"f{i}", 0.5, f"t{i}", title=label) for i, label in enumerate(labels)]))
    report = verify_citations(answer, made)
    seen = {one.citation for one in report.cited} | set(report.uncited)
    seen |= {citation for one in report.ambiguous for citation in one.citations}
    assert seen == set(made.citations)
    assert not {one.citation for one in report.cited} & set(report.uncited)


@pytest.mark.parametrize("piece", ["[a] ", "`", "[", "~~~\n", "(", "(docs/", "README.md L1-9 ", "[a; ", "```\n", "\\"])
def test_long_answers_take_one_pass(piece):
    """Quadratic time would take minutes here, and hit the suite's own limit."""
    report = verify_citations(piece * (200_000 // len(piece)), composition(*LABELS))
    assert len(report.invented) <= 1


def test_similar_labels_are_looked_for_among_the_first_invented_alone():
    answer = " ".join(f"[README.md L1-{n}]" for n in range(10, 10 + MOST_COMPARED + 5))
    nears = [one.near for one in verify_citations(answer, composition(*LABELS)).invented]
    assert nears == [Near.SIMILAR] * MOST_COMPARED + [None] * 5


@pytest.mark.parametrize("mode", RenderMode)
def test_in_every_mode_a_label_is_cited_as_the_prompt_has_it(mode: RenderMode):
    labels = (*LABELS, "Placement")
    frames = [frame(f"f_{index}", 0.5, f"text {index}", title=label) for index, label in enumerate(labels)]
    made = composed(lane("docs", frames), mode=mode)
    told = {citation.label: citation.position for citation in made.citations}
    assert len(told) == len(frames)
    report = verify_citations(" ".join(f"[{label}]." for label in told), made)
    assert [one.citation.position for one in report.cited] == sorted(told.values())
    assert not report.invented + report.ambiguous


def test_backslashes_of_a_heading_are_no_invention():
    made = composed(lane("docs", [frame("f_1", 0.5, title="a_b *c*")]), mode=RenderMode.MARKDOWN)
    assert '"a\\_b \\*c\\*"' in made.prompt
    for answer in ("[a\\_b \\*c\\*]", "[a_b *c*]", "[a\\_b \\*c\\* (docs/f\\_1)]", "[docs/f_1]"):
        report = verify_citations(answer, made)
        assert [one.citation.label for one in report.cited] == ["a_b *c*"]
        assert not report.invented
