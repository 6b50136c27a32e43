"""Text, code and questions are read into the same terms, whatever characters they hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.providers.words import MAX_QUERY_TERMS, STOP_WORDS, query_terms, stem, terms

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ranks", "ranking"),
        ("ranked", "rank"),
        ("retries", "retry"),
        ("retried", "retry"),
        ("matches", "matched"),
        ("cache", "caching"),
        ("caches", "cached"),
        ("cancelled", "cancel"),
        ("installed", "install"),
        ("running", "run"),
        ("processes", "processing"),
        ("boxes", "box"),
    ],
)
def test_forms_of_a_word_share_a_stem(one: str, other: str):
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["is", "bus", "class", "status", "axis", "sky", "über", "sha256"])
def test_words_that_are_no_plural_stay_as_they_are(word: str):
    assert stem(word) == word


@pytest.mark.parametrize(
    "identifier",
    ["parseHttpHeader", "parse_http_header", "ParseHTTPHeader", "PARSE_HTTP_HEADER", "__parse_http_header"],
)
def test_an_identifier_gives_its_parts_and_its_whole_in_every_style(identifier: str):
    assert terms(identifier) == [stem("parse"), "http", "header", "parsehttpheader"]


def test_accents_widths_and_case_make_no_difference():
    assert terms("Crème BRÛLÉE") == terms("creme brulee")
    assert terms("ｗｉｄｅ") == terms("wide")
    assert terms("Straße") == terms("STRASSE")


def test_scripts_without_spaces_give_overlapping_pairs():
    assert terms("全文検索") == ["全文", "文検", "検索"]
    assert terms("字") == ["字"]
    assert set(query_terms("検索")) <= set(terms("全文検索エンジン"))


def test_a_question_loses_its_stop_words_and_repeats_and_keeps_its_order():
    assert query_terms("How does the broker rank frames, and which frames?") == (stem("broker"), "rank", stem("frames"))


def test_a_question_of_stop_words_alone_keeps_them():
    assert query_terms("who is it") == ("who", "is", "it")
    assert {"who", "is", "it"} <= STOP_WORDS


def test_a_long_question_is_bounded():
    assert len(query_terms(" ".join(f"w{i}x" for i in range(5_000)))) == MAX_QUERY_TERMS


@given(ANY_TEXT)
def test_any_text_can_be_read(text: str):
    found = terms(text)
    assert all(found)
    assert all("\0" not in term and '"' not in term and not term.isspace() for term in found)
    assert set(query_terms(text)) <= set(found)
    assert len(set(query_terms(text))) == len(query_terms(text)) <= MAX_QUERY_TERMS


@given(st.lists(ANY_TEXT, max_size=4))
def test_terms_of_a_text_are_those_of_its_lines(lines: list[str]):
    joined = terms(" \n".join(lines))
    assert set(joined) == {term for line in lines for term in terms(line)}
