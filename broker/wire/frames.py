"""Frames and scales: messages to values and back.

Whatever a frame holds, one that cannot be read costs no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

from contextbroker.v1 import frame_pb2, strategy_pb2
from google.protobuf.message import DecodeError
from msgspec import Struct
from msgspec.structs import astuple

from broker.core.frames import KINDS, Frame, FrameRef, Provenance, Relation, digest_of
from broker.core.lanes import Unreadable
from broker.core.scores import UNIT, Direction, ScoreScale
from broker.core.slips import MAX_PROVENANCE, MAX_RELATIONS
from broker.errors import FieldViolation, InvalidArgument
from broker.wire.schema import loose_frame
from broker.wire.typed import require

MAX_LISTED = max(MAX_PROVENANCE, MAX_RELATIONS) + 1
"""Steps of provenance, or relations, that are read of one frame: one more than the core takes, so that it sees that
there are too many. What lies beyond is not worth its conversion: a batch can hold a quarter of a million."""

_KIND = re.compile(r"kind-(0|-?[1-9][0-9]{0,9})")

_DIRECTIONS: dict[int, Direction] = {
    frame_pb2.SCORE_DIRECTION_UNSPECIFIED: Direction.HIGHER_IS_BETTER,
    frame_pb2.SCORE_DIRECTION_HIGHER_IS_BETTER: Direction.HIGHER_IS_BETTER,
    frame_pb2.SCORE_DIRECTION_LOWER_IS_BETTER: Direction.LOWER_IS_BETTER,
    frame_pb2.SCORE_DIRECTION_AS_SENT: Direction.AS_SENT,
}

DIRECTION_NUMBERS: dict[Direction, frame_pb2.ScoreDirection.ValueType] = {
    Direction.HIGHER_IS_BETTER: frame_pb2.SCORE_DIRECTION_HIGHER_IS_BETTER,
    Direction.LOWER_IS_BETTER: frame_pb2.SCORE_DIRECTION_LOWER_IS_BETTER,
    Direction.AS_SENT: frame_pb2.SCORE_DIRECTION_AS_SENT,
}


def kind_name(number: int) -> str:
    """The name of a kind: one of :data:`~broker.core.frames.KINDS`, or ``kind-<number>``."""
    return KINDS[number] if 0 <= number < len(KINDS) else f"kind-{number}"


def kind_number(name: str, path: str = "kind") -> frame_pb2.FrameKind.ValueType:
    """The number of a kind's name; the inverse of :func:`kind_name`.

    Args:
        name: The name.
        path: The field that it stands in, for the error.

    Raises:
        InvalidArgument: There is no kind of this name, or its number does not fit 32 bits (``KIND_UNKNOWN``).
    """
    if name in KINDS:
        return frame_pb2.FrameKind.ValueType(KINDS.index(name))
    match = _KIND.fullmatch(name)
    if match and -(2**31) <= int(match[1]) < 2**31:
        return frame_pb2.FrameKind.ValueType(int(match[1]))
    text = f"{name!r} is not a kind; use one of {', '.join(KINDS[1:])}, or kind-<number>"
    raise InvalidArgument.of([FieldViolation(path, "KIND_UNKNOWN", text)])


def read_frame(data: bytes, max_bytes: int) -> Frame | Unreadable:
    """One encoded frame as a value.

    Fields that the contract does not know are passed over. Nothing is judged: a frame without a title is a frame.

    Args:
        data: The encoded frame.
        max_bytes: How many bytes it may have.

    Returns:
        The frame; or what is known of bytes that cannot be read, for whatever reason. Never raises.
    """
    if len(data) > max_bytes:
        return unreadable(data, "FRAME_TOO_LARGE", max_bytes)
    try:
        message = frame_pb2.Frame.FromString(data)
    except DecodeError:
        return unreadable(data, "FRAME_MALFORMED")
    return frame_value(message, MAX_LISTED)


def read_frames(encoded: Sequence[bytes], max_bytes: int) -> Sequence[Frame | Unreadable]:
    """:func:`read_frame` of each of many, in their order."""
    if max(map(len, encoded), default=0) <= max_bytes:
        with suppress(DecodeError):
            return frame_values(map(frame_pb2.Frame.FromString, encoded), MAX_LISTED)
    # One of them cannot be read, and costs no other.
    return [read_frame(data, max_bytes) for data in encoded]


def unreadable(data: bytes, reason: str, allowed: int = 0) -> Unreadable:
    """What is known of bytes that are not a frame; ``allowed`` is how many there may be, where they are too many."""
    return Unreadable(len(data), digest_of(data), reason, allowed)


def frame_value(message: frame_pb2.Frame, most: int | None = None) -> Frame:
    """A parsed frame as a value; ``most`` is how many steps of provenance, and relations, are read; None: all."""
    (value,) = frame_values((message,), most)
    return value


def frame_values(messages: Iterable[frame_pb2.Frame], most: int | None = None) -> list[Frame]:
    """:func:`frame_value` of each of many, in their order."""
    values = []
    kinds = len(KINDS)
    for message in messages:
        # Each look into a message costs as much as making a small value: none is taken twice, and whether a number is
        # there is asked only where it could be absent.
        score, cost, kind = message.score, message.token_cost, message.kind
        steps, ties = message.provenance, message.relations
        # Most frames have one step, for which a comprehension would be a call of its own.
        provenance = []
        for step in steps[:most] if steps else ():
            made = Provenance(step.type, step.uri, step.range, step.digest, step.method, step.by)
            provenance.append(made)
        values.append(
            Frame(
                message.id,
                message.title,
                message.content,
                score if score or message.HasField("score") else None,
                KINDS[kind] if 0 <= kind < kinds else kind_name(kind),
                message.citation_label,
                message.uri,
                tuple(provenance),
                tuple([Relation(tie.rel, tie.target_uri, tie.display_name) for tie in ties[:most]]) if ties else (),
                message.valid_from,
                message.valid_to,
                message.recorded_at,
                cost if cost or message.HasField("token_cost") else None,
                message.content_digest,
            )
        )
    return values


def frame_message(frame: Frame, path: str = "") -> frame_pb2.Frame:
    """A frame as a message; the inverse of :func:`frame_value`.

    Args:
        frame: The frame.
        path: Where it stands, for errors; empty: nowhere.

    Raises:
        InvalidArgument: Its kind is not known (``KIND_UNKNOWN``), or its ``token_cost`` is not an unsigned number of 32
            bits (``OUT_OF_RANGE``), with the field.
        UnicodeEncodeError: A text contains a lone surrogate, which UTF-8 cannot encode.
        TypeError: A value is of another type than its field.
    """
    inside = f"{path}." if path else ""
    if frame.token_cost is not None and not 0 <= frame.token_cost < 2**32:
        text = f"{frame.token_cost} is out of range; leave it out, or give (UTF-8 bytes of the content + 3) // 4"
        raise InvalidArgument.of([FieldViolation(f"{inside}token_cost", "OUT_OF_RANGE", text)])
    return frame_pb2.Frame(
        id=frame.id,
        kind=kind_number(frame.kind, f"{inside}kind"),
        title=frame.title,
        content=frame.content,
        score=frame.score,
        token_cost=frame.token_cost,
        citation_label=frame.citation_label,
        content_digest=frame.content_digest,
        uri=frame.uri,
        provenance=[
            frame_pb2.Provenance(
                type=step.type, uri=step.uri, range=step.range, digest=step.digest, method=step.method, by=step.by
            )
            for step in frame.provenance
        ],
        relations=[
            frame_pb2.Relation(rel=tie.rel, target_uri=tie.target_uri, display_name=tie.display_name)
            for tie in frame.relations
        ],
        valid_from=frame.valid_from,
        valid_to=frame.valid_to,
        recorded_at=frame.recorded_at,
    )


def encode_frame(frame: Frame, path: str = "") -> bytes:
    """An encoded frame.

    A text with a lone surrogate is sent as the bytes that stand for it, which no reader accepts: the broker then drops
    this one frame as malformed and says so, and nothing disappears on the sender's side.

    Args:
        frame: The frame.
        path: Where it stands, for errors; empty: nowhere.

    Raises:
        InvalidArgument: It is not a frame, or a value in it is of another type (``FIELD_INVALID``), with the field;
            and as :func:`frame_message`.
    """
    require((path, frame, Frame))
    try:
        return frame_message(frame, path).SerializeToString()
    except UnicodeEncodeError:
        return loose_frame("".join(_texts(frame)))
    except OverflowError:
        text = "the score does not fit a number of 64 bits"
        raise InvalidArgument.of([FieldViolation(f"{path}.score".removeprefix("."), "OUT_OF_RANGE", text)]) from None


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, Struct):
        yield from _texts(astuple(value))


def scale_message(scale: ScoreScale) -> frame_pb2.ScoreScale:
    """A scale as a message."""
    return frame_pb2.ScoreScale(id=scale.id, min=scale.min, max=scale.max, direction=DIRECTION_NUMBERS[scale.direction])


def read_scale(message: frame_pb2.ScoreScale | None, path: str = "scale") -> ScoreScale:
    """A scale as a value.

    Args:
        message: The scale; None where the field was left out.
        path: The field that it stands in, for the error.

    Returns:
        The scale; :data:`~broker.core.scores.UNIT` where it was left out.

    Raises:
        InvalidArgument: The direction is not known (``ENUM_UNKNOWN``); an end is NaN, or they are not in order
            (``SCALE``).
    """
    if message is None:
        return UNIT
    direction = _DIRECTIONS.get(message.direction)
    if direction is None:
        raise InvalidArgument.of([unknown_value(f"{path}.direction", message.direction)])
    try:
        return ScoreScale(message.id, message.min, message.max, direction)
    except ValueError:
        text = f"min {message.min!r} must be below max {message.max!r}, and neither may be NaN"
        raise InvalidArgument.of([FieldViolation(path, "SCALE", text)]) from None


def unknown_value(path: str, number: int) -> FieldViolation:
    """The violation of an enum field that holds a number this version does not know."""
    return FieldViolation(path, "ENUM_UNKNOWN", f"the value {number} is not known to this version; use a listed one")


def ref_value(message: strategy_pb2.FrameRef) -> FrameRef:
    """The name of a frame as a value."""
    return FrameRef(message.provider_id, message.frame_id)
