"""A name-match lies from 0 to 1, is 1 for a name spelt out, and else what its formula says."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.providers.matching import Asked, Named, NameMatch
from broker.providers.words import terms

TERMS = st.frozensets(st.sampled_from("abcdefgh"), max_size=5)
NAMED = st.builds(
    lambda name, about: Named("m." + "_".join(sorted(name)), name, about - name), TERMS.filter(bool), TERMS
)


def named(path: str, doc: str = "") -> Named:
    name = frozenset(terms(path.rpartition(".")[2]))
    return Named(path, name, frozenset(terms(f"{path.replace('.', ' ')} {doc}")) - name)


def matcher(*definitions: Named) -> NameMatch:
    match = NameMatch()
    match.add(definitions)
    return match


@given(st.lists(NAMED, min_size=1, max_size=8), TERMS.filter(bool))
def test_scores_are_those_of_the_formula(definitions: list[Named], question: frozenset[str]):
    match, asked = matcher(*definitions), Asked(question, ())

    def weight(chosen) -> float:
        holding = {t: sum(t in d.name or t in d.about for d in definitions) for t in chosen}
        return math.fsum(math.log(1 + len(definitions) / (1 + holding[t])) for t in chosen)

    for definition in definitions:
        score = match.score(asked, definition)
        in_name, in_all = question & definition.name, question & (definition.name | definition.about)
        if not in_name and len(in_all) < min(2, len(question)):
            assert score == 0.0
            continue
        cosine = weight(in_name) / math.sqrt(weight(question) * weight(definition.name))
        assert score == pytest.approx(0.7 * cosine + 0.3 * weight(in_all) / weight(question))
        assert 0 < score <= 1


@given(st.lists(NAMED, min_size=1, max_size=8), TERMS.filter(bool))
def test_taking_definitions_out_undoes_putting_them_in(definitions: list[Named], question: frozenset[str]):
    first, *rest = definitions
    match = matcher(*definitions)
    match.remove(rest)
    assert match.score(Asked(question, ()), first) == matcher(first).score(Asked(question, ()), first)


@pytest.mark.parametrize(
    ("question", "path", "exact"),
    [
        ("what is LocalScore", "core.scores.LocalScore", True),
        ("where is lane_key used", "core.scores.lane_key", True),
        ("see LaneIntake.take", "core.intake.LaneIntake.take", True),
        ("see scores.lane_key", "core.scores.lane_key", True),
        ("call pack() twice", "core.packing.pack", True),
        ("the `pack` step", "core.packing.pack", True),
        ("pack it up well", "core.packing.pack", False),
        ("LaneIntake.take", "core.other.take", False),
        ("see key", "core.scores.lane_key", False),
        ("localscore of lane", "core.scores.LocalScore", False),
    ],
)
def test_a_name_spelt_out_scores_one_and_a_common_word_does_not(question: str, path: str, exact: bool):
    score = matcher(named(path), named("a.b")).score(Asked.of(question), named(path))
    assert (score == 1.0) is exact


def test_rare_words_count_for_more_than_common_ones():
    common = [named(f"m.frame_{letter}x", "frame") for letter in "abcdefgh"]
    rare, plain = named("m.fold"), named("m.frame")
    match = matcher(*common, rare, plain)
    asked = Asked.of("how to fold a frame")
    assert match.score(asked, rare) > match.score(asked, plain) > match.score(asked, common[0]) > 0


def test_a_docstring_alone_needs_two_words_of_the_question_or_its_only_one():
    definition = named("m.place", "puts the best at both edges of the prompt")
    match = matcher(definition, named("m.other"))
    assert match.score(Asked.of("edges of the prompt"), definition) > 0
    assert match.score(Asked.of("edges"), definition) > 0
    assert match.score(Asked.of("edges of a mountain"), definition) == 0


@given(st.text(st.characters(exclude_categories=()), max_size=80))
def test_any_question_can_be_read(text: str):
    assert 0 <= matcher(named("a.b_c")).score(Asked.of(text), named("a.b_c")) <= 1
