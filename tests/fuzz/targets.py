"""What is fuzzed: everything that turns a stranger's bytes into values, with what must hold whatever the bytes are.

A target raises where something does not hold: an error that is not the domain's own, a text that a client could not be
sent, a value that does not survive being written and read again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.message import DecodeError

from broker.config import Config
from broker.core.frames import Frame
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd, Unreadable
from broker.core.scores import UNIT
from broker.errors import BrokerError, InvalidArgument, ResourceExhausted
from broker.rpc import admission
from broker.rpc.status import fitting
from broker.rpc.validation import violations_of
from broker.wire import sessions
from broker.wire.batches import batch_size, split_batch
from broker.wire.compositions import CompositionReader
from broker.wire.events import Batch, Hello, LaneEnded, Malformed
from broker.wire.frames import frame_message, read_frame
from broker.wire.pushes import PushHeader, push_header, read_push_request
from broker.wire.reading import BatchFrames
from broker.wire.requests import compose_request
from broker.wire.status import status_proto

CONFIG = Config()
MAX_FRAME_BYTES = CONFIG.limits.max_frame_bytes
GRANT = Grant(max_frames=64, max_tokens=10_000)


def compose(data: bytes) -> None:
    """A ``ComposeRequest``: decoded, held against the schema, its inline lanes taken in."""
    try:
        call, _ = admission.read(data, CONFIG)
        lanes = admission.inline_lanes(call, CONFIG)
    except BrokerError as error:
        _sendable(error)
        return
    for lane, sent in zip(lanes, call.inline_lanes, strict=True):
        _accounted(lane, len(sent.frames))
    if not any(isinstance(frame, Unreadable) for lane in call.inline_lanes for frame in lane.frames):
        again = compose_request(call).SerializeToString()
        assert repr(admission.read(again, CONFIG)[0]) == repr(call), "what was read is not what is written"


def attach(data: bytes) -> None:
    """What a provider says in its session."""
    try:
        event = sessions.read_attach_request(data, violations_of)
    except InvalidArgument as error:
        _sendable(error)
        return
    if isinstance(event, Hello | LaneEnded):
        assert repr(sessions.read_attach_request(sessions.attach_request(event), violations_of)) == repr(event)
    elif isinstance(event, Malformed):
        _sendable(InvalidArgument(event.reason, event.message))
    elif isinstance(event, Batch):
        batch(event.data)


def batch(data: bytes) -> None:
    """A batch: counted, cut apart, its frames read together and each by itself, and judged."""
    try:
        count = batch_size(data)
        parts = split_batch(data)
    except InvalidArgument as error:
        _sendable(error)
        return
    frames = BatchFrames(data, MAX_FRAME_BYTES)
    assert count == len(parts) == len(frames)
    read = frames[:]
    assert repr(read) == repr([read_frame(part, MAX_FRAME_BYTES) for part in parts]), "a frame is not what it is alone"
    intake = LaneIntake("a", UNIT, GRANT)
    intake.take(read)
    assert intake.offered == min(count, GRANT.max_frames + 1)
    _accounted(intake.close(LaneEnd.COMPLETE), intake.offered)


def frame(data: bytes) -> None:
    """One frame: a value that is written as it was read, or a mark of what could not be read."""
    found = read_frame(data, MAX_FRAME_BYTES)
    intake = LaneIntake("a", UNIT, GRANT)
    intake.take([found])
    _accounted(intake.close(LaneEnd.COMPLETE), 1)
    if isinstance(found, Frame):
        assert repr(read_frame(frame_message(found).SerializeToString(), MAX_FRAME_BYTES)) == repr(found)


def push(data: bytes) -> None:
    """What a service pushes: a header, or a batch."""
    try:
        part = read_push_request(data, violations_of)
    except (InvalidArgument, ResourceExhausted) as error:
        _sendable(error)
        return
    if isinstance(part, PushHeader):
        assert repr(read_push_request(push_header(part), violations_of)) == repr(part)
    else:
        batch(part)


def answer(data: bytes) -> None:
    """What a broker answers, as the client library reads it: a broker may be hostile too."""
    reader = CompositionReader()
    with contextlib.suppress(BrokerError, DecodeError):
        reader.take(pb.ComposeResponse.FromString(data))
        reader.result()


TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target for target in (compose, attach, batch, frame, push, answer)
}


def _sendable(error: BrokerError) -> None:
    """A status that reaches its caller: bounded, and text."""
    assert error.reason.replace("_", "").isalnum()
    assert error.reason.isupper()
    assert status_proto(fitting(error)).ByteSize() <= 8192
    assert all(c.isprintable() for c in error.message), "a control character in an error's text"


def _accounted(lane: Lane, offered: int) -> None:
    """Every frame offered is counted, once."""
    assert lane.offered == offered
