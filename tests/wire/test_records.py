"""Promise: what is kept of a composition gives it back as it was, and without content holds none."""

from __future__ import annotations

import pytest
from contextbroker.v1 import context_service_pb2 as pb
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.composition import AuditState, Composition
from broker.core.records import ProviderStatistics
from broker.errors import Internal
from broker.wire.compositions import KINDS, encoded_parts
from broker.wire.encoded_audits import encoded_audit
from broker.wire.records import (
    Record,
    RecordReader,
    is_kept,
    read_listed,
    read_statistics,
    record_head,
    record_messages,
    statistics_message,
)
from broker.wire.requests import ComposeCall, compose_request
from tests.wire.values import calls, compositions, same

MARK = "neither the goal nor what was found"

counts = st.integers(0, 2**40)
statistics = st.builds(
    ProviderStatistics, provider=st.text("ab", min_size=1), asked=counts, placed=counts, cited=counts
)


def kept(composition: Composition, call: ComposeCall, *, content: bool) -> tuple[bytes, list[bytes]]:
    audit = encoded_audit(composition.summary, composition.usage)
    call = replace(call, request_id=composition.request_id)
    asked = compose_request(replace(call, inline_lanes=()))
    head = record_head(composition, audit, asked, "agent", 1_234_567, content=content)
    kinds = [kind for kind in KINDS if is_kept(kind, content=content)]
    return head, [part.joined(kinds) for part in encoded_parts(composition)]


def read(head: bytes, parts: list[bytes]) -> Record:
    reader = RecordReader()
    for message in record_messages(head, parts):
        reader.take(pb.GetCompositionResponse.FromString(message))
    return reader.result()


@settings(max_examples=30)
@given(compositions(), calls)
def test_with_content_it_comes_back_whole(composition: Composition, call: ComposeCall) -> None:
    record = read(*kept(composition, call, content=True))
    assert same(record.composition, replace(composition, audit_state=AuditState.RECORDED))
    assert (record.subject, record.made_at, record.content) == ("agent", 1.234567, True)
    assert record.request is not None
    assert same(record.request, replace(call, request_id=composition.request_id, inline_lanes=()))


@settings(max_examples=30)
@given(compositions(), calls)
def test_without_content_only_what_was_placed_and_asked_is_missing(composition: Composition, call: ComposeCall) -> None:
    bare = replace(composition, placed=(), preamble="", closing="", separator="", audit_state=AuditState.RECORDED)
    record = read(*kept(composition, call, content=False))
    assert same(record.composition, bare)
    assert record.request is not None
    assert record.request.composition.max_tokens == call.composition.max_tokens


@settings(max_examples=30)
@given(compositions(), calls)
def test_without_content_no_byte_of_it_is_kept(composition: Composition, call: ComposeCall) -> None:
    asked = replace(call.composition, question=MARK)
    call = replace(call, goal=MARK, query_text=MARK, anchors=(MARK,), composition=asked)
    frames = [replace(p, frame=replace(p.frame, content=MARK, title=MARK), rendered=MARK) for p in composition.placed]
    marked = replace(composition, placed=tuple(frames), preamble=MARK, closing=MARK, separator=MARK)
    head, parts = kept(marked, call, content=False)
    assert MARK.encode() not in b"".join([head, *parts])


def test_a_record_with_a_part_missing_is_broken() -> None:
    with pytest.raises(Internal):
        read(pb.CompositionRecord(summary={"rows": 1}).SerializeToString(), [])
    with pytest.raises(Internal):
        RecordReader().result()


@settings(max_examples=30)
@given(compositions(), calls)
def test_a_list_says_what_the_record_says(composition: Composition, call: ComposeCall) -> None:
    head, parts = kept(composition, call, content=True)
    listed, record = read_listed(pb.CompositionRecord.FromString(head)), read(head, parts)
    assert same(listed.summary, record.composition.summary)
    assert same(listed.usage, record.composition.usage)
    assert (listed.composition_id, listed.request_id) == (composition.composition_id, composition.request_id)
    for name in ("subject", "made_at", "content"):
        assert getattr(listed, name) == getattr(record, name)
    assert same(listed.request, record.request)


def test_what_a_later_version_asked_costs_the_question_alone() -> None:
    head = pb.CompositionRecord(composition_id="c", request=pb.ComposeRequest(placement=99))
    assert read(head.SerializeToString(), []).request is None
    assert read_listed(head).request is None


@given(st.lists(statistics, max_size=4))
def test_statistics_come_back(figures: list[ProviderStatistics]) -> None:
    assert list(read_statistics(statistics_message(figures))) == figures
