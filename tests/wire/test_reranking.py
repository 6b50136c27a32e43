"""What a reranker is asked and answers crosses the wire whole, within its bounds, and a broken answer is told."""

from __future__ import annotations

import math

import pytest
from contextbroker.v1 import context_service_pb2
from contextbroker.v1 import rerank_service_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from broker.core.request import Rerank
from broker.errors import InvalidArgument
from broker.wire.reranking import (
    MAX_CANDIDATES,
    MAX_CONTENT_BYTES,
    RerankAnswer,
    RerankText,
    asked_message,
    read_asked,
    read_record,
    read_rerank_request,
    read_rerank_response,
    record_message,
    rerank_request,
    rerank_response,
)
from tests.wire.values import limits, limits_of_one, numbers, rerank_records, texts

asked = st.builds(Rerank, texts, limits_of_one, limits, st.none() | numbers)
candidates = st.lists(st.builds(RerankText, texts, texts), min_size=1, max_size=5)


@given(asked)
def test_what_is_asked_comes_back_as_it_was(rerank: Rerank):
    assert read_asked(asked_message(rerank)) == rerank


def test_defaults_are_filled_in():
    assert read_asked(context_service_pb2.Rerank(name="r")) == Rerank("r", 50, None, None)
    assert read_asked(context_service_pb2.Rerank(name="r", min_rerank_score=0.0)).min_score == 0.0


@pytest.mark.parametrize("rerank", [Rerank("r", 0), Rerank("r", top_n=0), Rerank("r", -1), Rerank("r", 2**32)])
def test_a_count_that_would_read_as_none_is_refused(rerank: Rerank):
    with pytest.raises(ValueError):
        asked_message(rerank)


@given(rerank_records)
def test_a_record_comes_back_as_it_was(record):
    assert read_record(record_message(record)) == record


@given(texts, candidates)
def test_a_request_comes_back_as_it_was(question: str, given_texts: list[RerankText]):
    assert read_rerank_request(rerank_request(question, given_texts)) == (question, given_texts)


def test_long_contents_are_cut_at_the_end_of_a_character():
    content = "é" + "漢" * MAX_CONTENT_BYTES
    _, (read,) = read_rerank_request(rerank_request("q", [RerankText("t", content)]))
    assert content.startswith(read.content)
    assert MAX_CONTENT_BYTES - 3 < len(read.content.encode()) <= MAX_CONTENT_BYTES


def test_no_request_is_larger_than_grpc_takes_without_being_told():
    texts = [RerankText("t" * 1024, "c" * 200_000)] * MAX_CANDIDATES
    assert len(rerank_request("q" * 8192, texts)) < 4 * 1024 * 1024
    assert len(read_rerank_request(rerank_request("q", texts))[1]) == MAX_CANDIDATES


@pytest.mark.parametrize("indices", [[], [1], [0, 0], [0, 2], range(MAX_CANDIDATES + 1)])
def test_candidates_are_numbered_from_zero_each_once(indices):
    message = pb.RerankRequest(candidates=[pb.RerankCandidate(index=index) for index in indices])
    with pytest.raises(InvalidArgument) as caught:
        read_rerank_request(message.SerializeToString())
    assert caught.value.reason == "CANDIDATES"


def test_candidates_may_come_in_any_order():
    message = pb.RerankRequest(candidates=[pb.RerankCandidate(index=i, title=f"t{i}") for i in (2, 0, 1)])
    assert [text.title for text in read_rerank_request(message.SerializeToString())[1]] == ["t0", "t1", "t2"]


@given(st.lists(st.none() | st.floats(), max_size=6), texts, texts)
def test_an_answer_comes_back_with_what_is_no_finite_number_left_out(scores, name: str, version: str):
    read = read_rerank_response(rerank_response(scores, name, version), len(scores))
    expected = tuple(score if score is not None and math.isfinite(score) else None for score in scores)
    assert read == RerankAnswer(expected, name, version)


def test_scores_may_come_in_any_order_and_may_be_fewer():
    message = pb.RerankResponse(scores=[pb.RerankScore(index=2, score=0.0), pb.RerankScore(index=0)])
    assert read_rerank_response(message.SerializeToString(), 3).scores == (None, None, 0.0)


@pytest.mark.parametrize("indices", [[3], [0, 0]])
def test_a_score_that_is_no_candidates_breaks_the_answer(indices):
    message = pb.RerankResponse(scores=[pb.RerankScore(index=index, score=1.0) for index in indices])
    with pytest.raises(InvalidArgument) as caught:
        read_rerank_response(message.SerializeToString(), 3)
    assert caught.value.reason == "INDEX"


@pytest.mark.parametrize("read", [read_rerank_request, lambda data: read_rerank_response(data, 1)])
def test_bytes_that_are_no_message_are_told(read):
    with pytest.raises(InvalidArgument) as caught:
        read(b"\xff\xff")
    assert caught.value.reason == "MALFORMED"


def test_what_a_scorer_says_of_itself_is_cut():
    read = read_rerank_response(rerank_response([], "n" * 100, "v" * 100), 0)
    assert (read.name, read.version) == ("n" * 64, "v" * 64)
