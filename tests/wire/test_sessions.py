"""A session's events come back from the wire as they were; what a provider garbles is told apart and ends nothing."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from contextbroker.v1 import provider_service_pb2 as pb
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import FieldViolation, InvalidArgument
from broker.wire import schema, sessions
from broker.wire.batches import join_batch
from broker.wire.events import (
    Ask,
    Batch,
    Cancel,
    Detached,
    Draining,
    Hello,
    LaneEnded,
    Malformed,
    Query,
    Rejection,
    Violation,
    Welcome,
)
from broker.wire.sessions import (
    DEFAULT_LIMITS,
    Limits,
    attach_request,
    attach_response,
    read_attach_request,
    read_attach_response,
    read_limits,
)
from tests.wire import values

query_ids = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=30)
inbound = st.one_of(
    st.builds(
        Hello,
        provider=values.texts,
        instance=values.texts,
        version=values.texts,
        kinds=values.tuples(values.kinds),
        scale=values.scales(),
        max_in_flight=values.positive,
    ),
    query_ids.flatmap(lambda q: st.lists(st.binary(max_size=9)).map(lambda frames: Batch(q, join_batch(q, frames)))),
    st.builds(LaneEnded, query_ids, st.booleans(), values.texts),
    st.just(Detached()),
)
queries = st.builds(
    Query,
    goal=values.texts,
    query_text=values.texts,
    kinds=values.tuples(values.kinds),
    anchors=values.tuples(values.texts),
    max_frames=values.uint32,
    max_tokens=values.uint32,
    as_of=values.texts,
    traceparent=values.texts,
)
outbound = st.one_of(
    st.builds(Welcome, values.texts),
    st.builds(Ask, values.texts, queries, values.uint32),
    st.builds(Cancel, values.texts),
    st.builds(Rejection, values.texts, values.tuples(st.builds(Violation, values.texts, values.texts, values.texts))),
    st.builds(Draining, values.uint32),
)


@given(inbound)
def test_what_a_provider_says_comes_back_as_it_was(event):
    assert read_attach_request(attach_request(event)) == event


@given(inbound)
def test_what_a_provider_says_is_the_public_message(event):
    message = pb.AttachRequest.FromString(attach_request(event)) if not isinstance(event, Batch) else None
    names = {Hello: "hello", LaneEnded: "lane_end", Detached: "detach"}
    assert message is None or message.WhichOneof("message") == names[type(event)]


@given(outbound)
def test_what_the_broker_says_comes_back_as_it_was(event):
    assert read_attach_response(attach_response(event)) == event


@given(st.builds(Limits, values.positive, values.positive, values.positive))
def test_a_welcome_tells_the_limits(limits: Limits):
    assert read_limits(attach_response(Welcome("s"), limits)) == limits


def test_a_welcome_without_limits_means_the_usual_ones():
    assert read_limits(pb.AttachResponse(welcome=pb.Welcome(session_id="s")).SerializeToString()) == DEFAULT_LIMITS


@pytest.mark.parametrize(("given_ms", "sent_ms"), [(-1, 0), (0, 0), (2**32, 2**32 - 1)])
def test_time_left_is_sent_within_its_range(given_ms: int, sent_ms: int):
    ask = Ask("q", Query(goal="g", max_frames=1, max_tokens=1), given_ms)
    assert read_attach_response(attach_response(ask)).remaining_ms == sent_ms
    assert read_attach_response(attach_response(Draining(given_ms))).remaining_ms == sent_ms


def test_what_is_the_same_for_all_who_are_asked_is_encoded_once():
    sessions._shared.cache_clear()
    asks = [
        Ask(name, Query(goal="why", anchors=("file:///a",), max_frames=most, max_tokens=9, traceparent=name * 9), most)
        for most, name in enumerate("abc", 1)
    ]
    assert [read_attach_response(attach_response(ask)) for ask in asks] == asks
    assert sessions._shared.cache_info().misses == 1


def test_a_hello_that_leaves_things_out_takes_the_defaults():
    data = pb.AttachRequest(hello=pb.Hello(provider_id="a", instance_id="i")).SerializeToString()
    assert read_attach_request(data) == Hello("a", "i")


def test_a_hello_that_cannot_stand_ends_the_session():
    with pytest.raises(InvalidArgument) as error:
        read_attach_request(b"\x0a\x02\x0a\x05")
    assert error.value.reason == "MALFORMED"
    with pytest.raises(InvalidArgument) as error:
        read_attach_request(pb.AttachRequest(hello=pb.Hello(scale={"id": "s"})).SerializeToString())
    assert error.value.violations[0].field == "scale"
    wrong = [FieldViolation("provider_id", "PROVIDER_NAME", "bad")]
    with pytest.raises(InvalidArgument) as error:
        read_attach_request(attach_request(Hello("A", "i")), check=lambda _: wrong)
    assert error.value.violations == tuple(wrong)


def test_the_check_sees_the_parsed_hello_and_lane_end():
    seen = []
    for event in (Hello("a", "i"), LaneEnded("q"), Batch("q", join_batch("q", [])), Detached()):
        read_attach_request(attach_request(event), check=lambda message: seen.append(message) or ())
    assert [type(message) for message in seen] == [pb.Hello, pb.LaneEnd]


@pytest.mark.parametrize(
    ("data", "query_id"),
    [
        pytest.param(b"", "", id="nothing"),
        pytest.param(b"\x0a", "", id="cut short"),
        pytest.param(b"\x12\x00\x1a\x00", "", id="two messages"),
        pytest.param(b"\x12\x03\x0a\x01q\x12\x03\x0a\x01q", "", id="one message twice"),
        pytest.param(b"\x2a\x00", "", id="of a later version"),
        pytest.param(b"\x12\x06\x0a\x01q\x12\x05x", "q", id="a batch cut short"),
        pytest.param(b"\x12\x03\x0a\x01\xff", "", id="a query that is no text"),
        pytest.param(b"\x12\x00", "", id="a batch without a query"),
        pytest.param(b"\x1a\x06\x0a\x01q\x1a\x05x", "q", id="a lane end cut short"),
        pytest.param(b"\x1a\x05\x0a\x01q\x10\x09", "q", id="a lane end of an unknown status"),
    ],
)
def test_what_cannot_be_read_is_told_apart_with_its_query(data: bytes, query_id: str):
    event = read_attach_request(data)
    assert isinstance(event, Malformed)
    assert event.query_id == query_id
    assert event.reason in {"MALFORMED", "QUERY_ID", "ENUM_UNKNOWN"}


@given(st.binary(max_size=40))
def test_whatever_comes_is_an_event_or_a_refused_hello(data: bytes):
    try:
        read_attach_request(data)
    except InvalidArgument:
        assert 0x0A in data


def test_a_query_id_may_have_128_bytes():
    longest = "é" * 64
    assert read_attach_request(attach_request(Batch(longest, join_batch(longest, [])))) == (
        Batch(longest, join_batch(longest, []))
    )
    assert isinstance(read_attach_request(attach_request(Batch("", join_batch(longest + "a", [])))), Malformed)


def test_a_lane_end_that_breaks_a_constraint_is_malformed_with_its_query():
    wrong = [FieldViolation("message", "FIELD_INVALID", "bad")]
    event = read_attach_request(attach_request(LaneEnded("q")), check=lambda _: wrong)
    assert event == Malformed("FIELD_INVALID", "message: bad", "q")


def test_an_end_that_does_not_say_how_is_complete():
    data = pb.AttachRequest(lane_end=pb.LaneEnd(query_id="q")).SerializeToString()
    assert read_attach_request(data) == LaneEnded("q")


def test_frames_stay_bytes_whatever_they_are():
    data = join_batch("q", [b"\xff\xff", b""])
    assert read_attach_request(attach_request(Batch("q", data))) == Batch("q", data)


def test_a_message_of_a_later_broker_is_none_and_garbage_is_refused():
    assert read_attach_response(b"\x32\x00") is None
    with pytest.raises(InvalidArgument):
        read_attach_response(b"\x0a\x05")


@pytest.mark.parametrize("tag", [b"\x0a", b"\x12", b"\x1a", b"\x22", b"\x28", b"\x92\x00"])
@pytest.mark.parametrize("first", [b"", b"\x12\x02\x0a\x00", b"\x0a\xff\xff\xff\xff\xff\x01"])
def test_half_a_million_parts_are_not_taken_apart(tag: bytes, first: bytes, monkeypatch: pytest.MonkeyPatch):
    """A hundred of these at once would keep a broker from all else for ten seconds."""
    parsed: list[int] = []
    monkeypatch.setattr(schema, "AttachRequest", SimpleNamespace(FromString=lambda data: parsed.append(1)))
    assert isinstance(read_attach_request(first + (tag + b"\x00") * 300_000), Malformed)
    assert not parsed


def test_a_large_batch_may_have_something_of_a_later_version_beside_it():
    batch = Batch("q", join_batch("q", [bytes(100_000)]))
    assert read_attach_request(attach_request(batch) + b"\x7a\x05later") == batch


def test_a_hello_is_read_only_where_it_is_short():
    hello = b"\x0a\x01a\x12\x011" + b"\x20\x01" * 500_000
    length = bytes([0x80 | len(hello) & 0x7F, 0x80 | len(hello) >> 7 & 0x7F, len(hello) >> 14])
    with pytest.raises(InvalidArgument, match="at most 16384 bytes"):
        read_attach_request(b"\x0a" + length + hello)
