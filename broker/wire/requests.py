"""A ``ComposeRequest`` as a value, and back: one function for each direction.

Reading is strict, for a limit must never be dropped in silence: a field that this version does not know and a value
that it does not list are each refused, with the field's path. Only inside frames are unknown fields passed over. What
the schema's own constraints say is left to whoever holds the returned message against them; nothing here depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.message import DecodeError
from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from broker.core.counting import BYTES_PER_4
from broker.core.frames import Frame
from broker.core.given import given
from broker.core.lanes import Unreadable
from broker.core.request import CompositionRequest
from broker.core.scores import UNIT, ScoreScale
from broker.core.strategies import RoundRobin, Strategy
from broker.errors import FieldViolation, InvalidArgument
from broker.wire.batches import inline_counts, malformed, split_inline_lanes
from broker.wire.composition_requests import composition_fields, read_composition_request
from broker.wire.frames import (
    frame_message,
    kind_name,
    kind_number,
    read_frames,
    read_scale,
    scale_message,
    unknown_value,
)
from broker.wire.strategies import read_strategy, read_weights, strategy_message, weight_messages
from broker.wire.strict import crowded, refuse_crowds, refuse_unknown_fields
from broker.wire.typed import require

MAX_INLINE_LANES = 256
"""Inline lanes of one request."""

MAX_LISTED = 10_000
"""Entries of any one list of a request; the schema allows fewer of most."""

MAX_SECONDS = 315_576_000_000
"""Seconds of the longest ``Duration``."""

_NANOS = 10**9

_SNAPSHOTS = frozenset(pb.Snapshots.values())


class InlineLane(Struct, frozen=True, gc=False):
    """The caller's own evidence.

    Attributes:
        provider: The lane's name: no registered provider's, and no other inline lane's.
        scale: Of the scores.
        frames: In any order, unless the scale is ``AS_SENT``. One that could not be read can be read only, not sent.
    """

    provider: str
    scale: ScoreScale = UNIT
    frames: tuple[Frame | Unreadable, ...] = ()


class ComposeCall(Struct, frozen=True, gc=False, kw_only=True):
    """One question: whom to ask, how long, and what to make of the answers.

    Attributes:
        goal: What the agent is trying to do.
        composition: What to make of the answers. Its ``strategy`` and ``tokenizer`` are those named, round robin and
            ``bytes/4`` where none is; :meth:`composed_under` puts the operator's defaults in.
        request_id: The caller's name for the request; empty: the broker makes one.
        query_text: The question as retrieval should read it; empty: the goal.
        kinds: Names of the kinds wanted; empty: any.
        anchors: Resources at hand, as URIs.
        providers: Providers to ask; empty: all that are attached.
        required_providers: Providers without which there is no answer; asked in any case.
        expect_pushes: Providers that will push; waited for and not asked.
        inline_lanes: The caller's own evidence.
        no_providers: Whether no attached provider is asked.
        collect_timeout: Seconds to collect; None: the broker's default.
        strategy: The policy that the caller named; None: the operator's default.
        tokenizer: What counts tokens, as the caller named it; empty: the operator's default.
        budget_weights: Parts of the budget by provider where the split is ``WEIGHTED``; a lane not named weighs 1.
        snapshots: Whether compositions are sent before the last lane has ended.
    """

    goal: str
    composition: CompositionRequest
    request_id: str = ""
    query_text: str = ""
    kinds: tuple[str, ...] = ()
    anchors: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    required_providers: tuple[str, ...] = ()
    expect_pushes: tuple[str, ...] = ()
    inline_lanes: tuple[InlineLane, ...] = ()
    no_providers: bool = False
    collect_timeout: float | None = None
    strategy: Strategy | None = None
    tokenizer: str = ""
    budget_weights: Mapping[str, float] = field(default_factory=dict)
    snapshots: bool = False

    def __post_init__(self) -> None:
        # One truth: what is composed under is what was named.
        force_setattr(self, "composition", self.composed_under(RoundRobin()))

    def composed_under(self, strategy: Strategy, tokenizer: str = BYTES_PER_4.name) -> CompositionRequest:
        """What to make of the answers, under the policy and the tokenizer named or else under these."""
        return replace(
            self.composition,
            strategy=self.strategy if self.strategy is not None else strategy,
            tokenizer=self.tokenizer or tokenizer,
        )


def compose_request(call: ComposeCall) -> pb.ComposeRequest:
    """A call as a message.

    Raises:
        InvalidArgument: A value that the wire cannot carry, with the field's path: a number out of its range
            (``OUT_OF_RANGE``), an unknown kind (``KIND_UNKNOWN``), a text with a lone surrogate (``TEXT_MALFORMED``),
            a value of another type (``FIELD_INVALID``).
    """
    strategy, timeout = call.strategy, call.collect_timeout
    fields: dict[str, Callable[[], Any]] = {
        "request_id": lambda: call.request_id,
        "goal": lambda: call.goal,
        "query_text": lambda: call.query_text,
        "kinds": lambda: [kind_number(kind, f"kinds[{i}]") for i, kind in enumerate(call.kinds)],
        "anchors": lambda: _listed(call.anchors),
        "providers": lambda: _listed(call.providers),
        "required_providers": lambda: _listed(call.required_providers),
        "expect_pushes": lambda: _listed(call.expect_pushes),
        "inline_lanes": lambda: [_lane_message(lane, f"inline_lanes[{i}]") for i, lane in enumerate(call.inline_lanes)],
        "collect_timeout": lambda: None if timeout is None else _duration(timeout),
        "strategy": lambda: None if strategy is None else strategy_message(strategy),
        "tokenizer": lambda: call.tokenizer,
        "budget_weights": lambda: weight_messages(call.budget_weights),
        "snapshots": lambda: pb.SNAPSHOTS_ON_LANE_END if call.snapshots else pb.SNAPSHOTS_NONE,
        "no_providers": lambda: call.no_providers,
        **composition_fields(call.composition),
    }
    wrong = (TypeError, ValueError, OverflowError, AttributeError)
    try:
        return pb.ComposeRequest(**{name: value() for name, value in fields.items()})
    except wrong:
        # One field at a time, so that what is wrong can be named.
        for name, value in fields.items():
            try:
                pb.ComposeRequest(**{name: value()})
            except wrong as error:
                raise _refused("render.question" if name == "render" else name, error) from None
        raise


def read_compose_request(
    data: bytes, *, max_frame_bytes: int, max_inline_frames: int
) -> tuple[pb.ComposeRequest, ComposeCall]:
    """A serialized ``ComposeRequest`` as a value.

    Counts are checked before anything is walked. An inline frame that cannot be read is a slip of that frame.

    Args:
        data: The request.
        max_frame_bytes: Bytes that one encoded inline frame may have.
        max_inline_frames: Inline frames that a request may hold in all.

    Returns:
        The message without the frames of its inline lanes, for the schema's constraints; and the call.

    Raises:
        InvalidArgument: The bytes do not parse (``MALFORMED``); a field is not known (``UNKNOWN_FIELD``), a value not
            listed (``ENUM_UNKNOWN``), the ends of a scale not in order (``SCALE``), a policy not named (``STRATEGY``),
            a provider weighed twice (``WEIGHT``), a safety factor below 1 (``SAFETY_FACTOR``), a question restated in
            a mode without a place for it (``RESTATE_QUESTION``).
        ResourceExhausted: A list has too many entries (``COUNT_EXCEEDED``).
    """
    lanes, frames = inline_counts(data, stop_at=MAX_INLINE_LANES)
    if lanes > MAX_INLINE_LANES:
        raise crowded("inline_lanes", lanes, MAX_INLINE_LANES)
    if frames > max_inline_frames:
        raise crowded("inline_lanes.frames", frames, max_inline_frames)
    head, cut_out = split_inline_lanes(data) if lanes else (data, [])
    try:
        message = pb.ComposeRequest.FromString(head)
        for lane, _ in cut_out:
            message.inline_lanes.add().MergeFromString(lane)
    except DecodeError:
        raise malformed("ComposeRequest") from None
    refuse_crowds(message, MAX_LISTED)
    refuse_unknown_fields(message)
    brought = (
        InlineLane(
            lane.provider_id,
            read_scale(lane.scale if lane.HasField("scale") else None, f"inline_lanes[{i}].scale"),
            tuple(read_frames(cut_out[i][1], max_frame_bytes)),
        )
        for i, lane in enumerate(message.inline_lanes)
    )
    call = read_call(message, brought)
    return message, call


def read_call(message: pb.ComposeRequest, inline_lanes: Iterable[InlineLane] = ()) -> ComposeCall:
    """The call that a message stands for, with these inline lanes in the place of its own.

    Raises:
        InvalidArgument: What :func:`read_compose_request` says of values.
    """
    return ComposeCall(
        goal=message.goal,
        composition=read_composition_request(message),
        request_id=message.request_id,
        query_text=message.query_text,
        kinds=tuple(map(kind_name, message.kinds)),
        anchors=tuple(message.anchors),
        providers=tuple(message.providers),
        required_providers=tuple(message.required_providers),
        expect_pushes=tuple(message.expect_pushes),
        inline_lanes=tuple(inline_lanes),
        no_providers=message.no_providers,
        collect_timeout=_seconds(message) if message.HasField("collect_timeout") else None,
        strategy=read_strategy(message.strategy) if message.HasField("strategy") else None,
        tokenizer=message.tokenizer,
        budget_weights=read_weights(message.budget_weights, "budget_weights"),
        snapshots=_snapshots(message.snapshots),
    )


def _lane_message(lane: InlineLane, path: str) -> pb.InlineLane:
    message = pb.InlineLane(provider_id=lane.provider, scale=scale_message(lane.scale))
    for i, frame in enumerate(lane.frames):
        try:
            if isinstance(frame, Unreadable):
                raise TypeError("a frame that could not be read cannot be sent")  # noqa: TRY301
            require((f"{path}.frames[{i}]", frame, Frame))
            message.frames.append(frame_message(frame, f"{path}.frames[{i}]"))
        except (TypeError, ValueError) as error:
            raise _refused(f"{path}.frames[{i}]", error) from None
    return message


def _listed(values: tuple[str, ...]) -> list[str]:
    # A single text is a sequence of texts too, and never what was meant.
    if isinstance(values, str):
        raise TypeError("give a list of texts, not one text")
    return list(values)


def _duration(seconds: float) -> Any:
    if not -MAX_SECONDS <= seconds <= MAX_SECONDS:
        raise ValueError(f"expected at most {MAX_SECONDS:,} seconds, got {given(seconds)}")
    # Apart, since their product would be rounded where the seconds are many.
    part, whole = math.modf(seconds)
    nanos = int(whole) * _NANOS + round(part * _NANOS)
    return {"seconds": nanos // _NANOS, "nanos": nanos % _NANOS}


def _snapshots(number: int) -> bool:
    if number not in _SNAPSHOTS:
        raise InvalidArgument.of([unknown_value("snapshots", number)])
    return number == pb.SNAPSHOTS_ON_LANE_END


def _seconds(message: pb.ComposeRequest) -> float:
    seconds, nanos = message.collect_timeout.seconds, message.collect_timeout.nanos
    if abs(nanos) >= _NANOS or seconds * nanos < 0 or abs(seconds) > MAX_SECONDS:
        text = (
            f"{seconds} s and {nanos} ns are not a Duration: at most {MAX_SECONDS:,} seconds, and nanos below a "
            "second, on the side of the seconds"
        )
        raise InvalidArgument.of([FieldViolation("collect_timeout", "COLLECT_TIMEOUT", text)])
    return (seconds * _NANOS + nanos) / _NANOS


def _refused(path: str, error: Exception) -> InvalidArgument:
    if isinstance(error, UnicodeEncodeError):
        return InvalidArgument.of([FieldViolation(path, "TEXT_MALFORMED", "has a lone surrogate; send valid text")])
    reason = "OUT_OF_RANGE" if isinstance(error, ValueError | OverflowError) else "FIELD_INVALID"
    return InvalidArgument.of([FieldViolation(path, reason, str(error))])
