"""A call that no gRPC library would make is answered within 2 s, by a reason of ours or as grpcio does it, pinned."""

from __future__ import annotations

import gzip

import pytest
from contextbroker.v1 import context_service_pb2 as pb

from broker.errors import InvalidArgument
from tests.raw.asking import BODY, LIST, QUESTION, answered
from tests.raw.http2 import DATA, END_STREAM, Headers, RawClient, frame, message, request_headers
from tests.rpc.peers import ATTACH, COMPOSE, PUSH, compose_message


def listed(data: bytes) -> bool:
    """Whether an answer's message is that of ListProviders."""
    return pb.ListProvidersResponse.FromString(data) == pb.ListProvidersResponse()


async def test_a_right_call_is_answered(raw: RawClient) -> None:
    outcome = await answered(raw.call(request_headers(COMPOSE), BODY))
    assert outcome.status == "OK"
    assert pb.ComposeResponse.FromString(outcome.messages[-1]).part.HasField("completed")


# --- H1 to H3: headers


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "*", COMPOSE[1:], f"/{COMPOSE}", COMPOSE.replace("/Compose", "//Compose")),
        *(COMPOSE.replace("Compose", "%43ompose"), f"{COMPOSE}?x", f"{COMPOSE}/", COMPOSE.lower(), COMPOSE.upper()),
        *(f" {COMPOSE}", f"{COMPOSE}\0", f"{COMPOSE}\r\n", COMPOSE.replace("/Compose", "/../ContextService/Compose")),
    ],
)
async def test_h1_a_path_that_is_no_methods_is_unimplemented(raw: RawClient, path: str) -> None:
    for credential in ((), (("authorization", "Bearer x"),)):
        outcome = await answered(raw.call(request_headers(path, *credential), BODY))
        assert outcome.status == "UNIMPLEMENTED"
        assert outcome.headers["grpc-message"] == "Method not found!"
        assert not outcome.data


@pytest.mark.parametrize("last", [COMPOSE, LIST])
async def test_h2_of_two_paths_the_core_takes_the_last_and_only_that_method_runs(raw: RawClient, last: str) -> None:
    """Pinned as grpcio gives it. Who may call is asked of the handler that runs, so the other path opens nothing."""
    first = LIST if last == COMPOSE else COMPOSE
    headers = request_headers(first)
    headers.insert(3, (b":path", last.encode()))
    outcome = await answered(raw.call(headers, BODY if last == COMPOSE else message(b"")))
    assert outcome.status == "OK"
    if last == LIST:
        assert len(outcome.messages) == 1
        assert listed(outcome.messages[0])
    else:
        assert pb.ComposeResponse.FromString(outcome.messages[-1]).part.HasField("completed")


@pytest.mark.parametrize(
    "headers",
    [
        request_headers(COMPOSE, method="GET"),
        request_headers(COMPOSE, method="PUT"),
        request_headers(COMPOSE, te=False),
        [header for header in request_headers(COMPOSE) if header[0] != b":scheme"],
        [header for header in request_headers(COMPOSE) if header[0] != b":authority"],
    ],
    ids=["GET", "PUT", "no te", "no scheme", "no authority"],
)
async def test_h3_what_is_no_grpc_call_is_reset(raw: RawClient, headers: Headers) -> None:
    """Pinned as grpcio gives it: the code is INTERNAL_ERROR, and the connection stays."""
    assert (await answered(raw.call(headers, BODY))).status == "RESET INTERNAL_ERROR"
    assert (await answered(raw.call(request_headers(COMPOSE), BODY))).status == "OK"


async def test_a_header_in_capitals_is_refused(raw: RawClient) -> None:
    """Pinned as grpcio gives it."""
    assert (await answered(raw.call(request_headers(COMPOSE, ("X-Up", "1")), BODY))).status == "INTERNAL"


# --- H4 to H8: messages and their prefixes


@pytest.mark.parametrize("method", [COMPOSE, LIST, ATTACH, PUSH])
@pytest.mark.parametrize("end", [True, False], ids=["ended", "left open"])
async def test_h4_a_call_without_a_message_is_refused(raw: RawClient, method: str, end: bool) -> None:
    """With nothing, half a prefix, or half a message."""
    streams = [await raw.open(request_headers(method), body, end=end) for body in (b"", BODY[:3], BODY[:-1])]
    for stream in streams:
        outcome = await answered(raw.over(stream))
        assert isinstance(outcome.error, InvalidArgument)
        assert outcome.reason == "NO_MESSAGE"


async def test_h4_calls_without_a_message_hold_no_slot(raw: RawClient) -> None:
    """Five of them, left open, beside five that are answered: none waits for another."""
    silent = [await raw.open(request_headers(COMPOSE), end=False) for _ in range(5)]
    for _ in range(5):
        assert (await answered(raw.call(request_headers(COMPOSE), BODY))).status == "OK"
    assert {(await answered(raw.over(stream))).reason for stream in silent} == {"NO_MESSAGE"}


@pytest.mark.parametrize("end", [True, False], ids=["ended", "left open"])
@pytest.mark.parametrize("announced", [2**32 - 1, 5_000_000])
async def test_h5_a_message_announced_as_too_large_is_refused_unread(raw: RawClient, announced: int, end: bool) -> None:
    """Pinned as grpcio gives it: the status is right, and there are no details."""
    outcome = await answered(raw.call(request_headers(COMPOSE), message(bytes(100), announced=announced), end=end))
    assert outcome.status == outcome.reason == "RESOURCE_EXHAUSTED"
    assert "larger than max" in outcome.headers["grpc-message"]


@pytest.mark.parametrize(("size", "reason"), [(2**20 + 1, "TOO_LARGE"), (5_000_000, "RESOURCE_EXHAUSTED")])
async def test_h5_a_message_that_is_too_large_is_refused(raw: RawClient, size: int, reason: str) -> None:
    outcome = await answered(raw.call(request_headers(COMPOSE), message(bytes(size))))
    assert outcome.status == "RESOURCE_EXHAUSTED"
    assert outcome.reason == reason


async def test_h6_a_second_message_is_refused(raw: RawClient) -> None:
    outcome = await answered(raw.call(request_headers(COMPOSE), BODY * 2))
    assert outcome.status == "INVALID_ARGUMENT"
    assert outcome.reason == "EXTRA_MESSAGE"


async def test_h7_a_message_that_inflates_beyond_the_limit_is_refused(raw: RawClient) -> None:
    """Its memory is measured in ``test_floods.py``."""
    bomb = message(gzip.compress(bytes(50_000_000), 1), flag=1)
    outcome = await answered(raw.call(request_headers(COMPOSE, ("grpc-encoding", "gzip")), bomb))
    assert outcome.status == "RESOURCE_EXHAUSTED"


async def test_h7_a_compressed_message_is_read(raw: RawClient) -> None:
    headers = request_headers(COMPOSE, ("grpc-encoding", "gzip"))
    assert (await answered(raw.call(headers, message(gzip.compress(QUESTION), flag=1)))).status == "OK"


async def test_h7_a_compressed_message_of_an_unknown_encoding_is_refused(raw: RawClient) -> None:
    """Pinned as grpcio gives it."""
    for more in ((), (("grpc-encoding", "br"),)):
        outcome = await answered(raw.call(request_headers(COMPOSE, *more), message(QUESTION, flag=1)))
        assert outcome.status == "INTERNAL"


@pytest.mark.parametrize("flag", [2, 7, 255])
async def test_h8_reserved_bits_before_a_message_do_no_harm(raw: RawClient, flag: int) -> None:
    """Pinned as grpcio gives it: it hands on an empty message or none, and no method takes that for a request."""
    outcome = await answered(raw.call(request_headers(COMPOSE), message(QUESTION, flag)))
    assert outcome.status == "INVALID_ARGUMENT"
    assert outcome.reason in ("GOAL", "NO_MESSAGE")


@pytest.mark.parametrize(
    ("flags", "bit", "statuses"),
    # Which of the first two comes depends on whether the core's reset or the handler's answer is sent first.
    [(0x40, 0, {"RESET PROTOCOL_ERROR", "INVALID_ARGUMENT"}), (0, 2**31, {"OK"})],
    ids=["of its flags", "of its stream"],
)
async def test_h8_reserved_bits_of_a_frame_do_no_harm(raw: RawClient, flags: int, bit: int, statuses: set[str]) -> None:
    """Pinned as grpcio gives it: it is strict with the one and passes the other over; the connection stays."""
    stream, head = raw.head(request_headers(COMPOSE))
    await raw.send(head + frame(DATA, END_STREAM | flags, stream | bit, BODY))
    assert (await answered(raw.over(stream))).status in statuses
    assert (await answered(raw.call(request_headers(COMPOSE), BODY))).status == "OK"


# --- H14: metadata


CONTROLS = (b"a\rb", b"a\nb", b"a\r\nx: y", b"a\0b", b"a\x1b[31mb", b"\x7f", b"\xff\xfe")


@pytest.mark.parametrize("key", ["x-anything", "traceparent", "user-agent", "x-request-id"])
async def test_h14_a_key_that_is_not_read_may_hold_anything_and_is_never_logged(
    raw: RawClient, key: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for value in CONTROLS:
        assert (await answered(raw.call(request_headers(COMPOSE, (key, value)), BODY))).status == "OK"
        assert value.decode("latin-1") not in "".join(capfd.readouterr())


@pytest.mark.parametrize("value", [b"a\rb", b"a\nb", b"a\0b", b"a\x1b[31mb", b"-1S", b"1", b"S"])
async def test_h14_a_deadline_that_is_none_is_refused(raw: RawClient, value: bytes) -> None:
    """Pinned as grpcio gives it; the key is the only one that it reads itself."""
    assert (await answered(raw.call(request_headers(COMPOSE, ("grpc-timeout", value)), BODY))).status == "INTERNAL"


async def test_a_deadline_that_has_passed_is_exceeded_and_one_that_never_comes_is_none(raw: RawClient) -> None:
    for value, status in (("0S", "DEADLINE_EXCEEDED"), ("99999999H", "OK")):
        assert (await answered(raw.call(request_headers(COMPOSE, ("grpc-timeout", value)), BODY))).status == status


async def test_metadata_is_taken_up_to_one_bound_and_refused_beyond_it(raw: RawClient) -> None:
    """With two bounds the core would refuse what lies between them by lot."""
    for _ in range(5):
        assert (await answered(raw.call(request_headers(COMPOSE, ("x", "y" * 15_000)), BODY))).status == "OK"
    outcome = await answered(raw.call(request_headers(COMPOSE, ("x", "y" * 20_000)), BODY))
    assert outcome.status == "RESOURCE_EXHAUSTED"


# --- H15 to H18: messages that are none


BAD_UTF8 = (b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80")


@pytest.mark.parametrize(
    "data",
    [b"\x0a\xff\xff\xff\xff\x0f", b"\x12\x05ab", b"\xff", *(b"\x12" + bytes((len(bad),)) + bad for bad in BAD_UTF8)],
)
@pytest.mark.parametrize("method", [COMPOSE, PUSH])
async def test_h15_bytes_that_do_not_parse_are_invalid_and_never_unknown(
    raw: RawClient, method: str, data: bytes
) -> None:
    outcome = await answered(raw.call(request_headers(method), message(data)))
    assert outcome.status == "INVALID_ARGUMENT"
    assert outcome.reason == "MALFORMED"


@pytest.mark.parametrize("where", ["", "strategy", "floors", "render"])
async def test_h16_a_field_of_a_newer_client_is_refused_and_named(raw: RawClient, where: str) -> None:
    request = compose_message(no_providers=True)
    unknown = b"\xa9\x3e" + bytes(8)  # Number 997, a double, as a min_score would be.
    if where == "floors":
        request.floors.add(provider_id="a", scale_id="unit").MergeFromString(unknown)
    elif where == "strategy":
        request.strategy.round_robin.MergeFromString(unknown)
    elif where == "render":
        request.render.MergeFromString(unknown)
    else:
        request.MergeFromString(unknown)
    outcome = await answered(raw.call(request_headers(COMPOSE), message(request.SerializeToString())))
    assert outcome.status == "INVALID_ARGUMENT"
    (violation,) = outcome.error.violations
    assert violation.reason == "UNKNOWN_FIELD"
    path = {"": "997", "strategy": "strategy.round_robin.997", "floors": "floors[0].997", "render": "render.997"}
    assert violation.field == path[where]


@pytest.mark.parametrize("field", ["duplicates", "placement", "partial_lanes"])
async def test_h17_a_number_that_no_enum_lists_is_refused_with_its_field(raw: RawClient, field: str) -> None:
    request = compose_message(no_providers=True)
    setattr(request, field, 4711)
    outcome = await answered(raw.call(request_headers(COMPOSE), message(request.SerializeToString())))
    assert outcome.status == "INVALID_ARGUMENT"
    assert [violation.field for violation in outcome.error.violations] == [field]


async def test_h17_a_strategy_that_no_one_registered_is_refused(raw: RawClient) -> None:
    request = compose_message(no_providers=True)
    request.strategy.plugin.name = "nope"
    outcome = await answered(raw.call(request_headers(COMPOSE), message(request.SerializeToString())))
    assert outcome.status == "INVALID_ARGUMENT"
    assert outcome.error.violations[0].field.startswith("strategy")


@pytest.mark.parametrize("depth", [100, 1000, 100_000])
async def test_h18_deep_nesting_is_refused(raw: RawClient, depth: int) -> None:
    """As unknown groups, which any message may hold: there is no field of ours that nests."""
    data = QUESTION + b"\x9b\x06" * depth + b"\x9c\x06" * depth
    outcome = await answered(raw.call(request_headers(COMPOSE), message(data)))
    assert outcome.status == "INVALID_ARGUMENT"
    assert outcome.reason in {"MALFORMED", "UNKNOWN_FIELD"}


@pytest.mark.parametrize("tag", [b"\x52", b"\x82\x01"], ids=["inline lanes", "floors"])
async def test_h18_half_a_million_parts_in_one_message_are_counted_and_refused(raw: RawClient, tag: bytes) -> None:
    data = QUESTION + (tag + b"\0") * (1_000_000 // (len(tag) + 1))
    outcome = await answered(raw.call(request_headers(COMPOSE), message(data)))
    assert outcome.status == "RESOURCE_EXHAUSTED"
    assert outcome.reason == "COUNT_EXCEEDED"
