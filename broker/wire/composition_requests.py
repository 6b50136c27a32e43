"""What a ``ComposeRequest`` says of the composition to make: its fields as a value, and back.

Unspecified options take the contract's defaults. An enum's value that this version does not list is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from contextbroker.v1 import context_service_pb2 as pb
from contextbroker.v1 import strategy_pb2

from broker.core.given import given
from broker.core.request import (
    DEFAULT_FOLD_MIN_TOKENS,
    BudgetSplit,
    CompositionRequest,
    Duplicates,
    Fence,
    Floor,
    PartialLanes,
    Placement,
    RenderMode,
)
from broker.errors import FieldViolation, InvalidArgument
from broker.wire.frames import unknown_value
from broker.wire.reranking import asked_message, read_asked
from broker.wire.strict import limit_number

Choice = TypeVar("Choice", bound=Enum)


class _Option(Generic[Choice]):
    """An option of the request: the members of an enum, by their numbers on the wire and back."""

    def __init__(self, values: type[Choice], numbers: Any, path: str) -> None:
        """Where nothing was said, which is number 0, the first member counts; errors name ``path``."""
        prefix = numbers.Name(0).removesuffix("UNSPECIFIED")
        self._path = path
        self._numbers: dict[Any, int] = {member: numbers.Value(f"{prefix}{member.value}") for member in values}
        self._members: dict[int, Choice] = {number: member for member, number in self._numbers.items()}
        self._members[0] = next(iter(values))

    def number(self, member: Choice) -> Any:
        """The number of a member.

        Raises:
            TypeError: There is no such member.
        """
        number = self._numbers.get(member)
        if number is None:
            raise TypeError(f"expected one of {', '.join(map(str, self._numbers))}, got {given(member)}")
        return number

    def member(self, number: int) -> Choice:
        """The member that a number stands for.

        Raises:
            InvalidArgument: It stands for none (``ENUM_UNKNOWN``).
        """
        member = self._members.get(number)
        if member is None:
            raise InvalidArgument.of([unknown_value(self._path, number)])
        return member


_DUPLICATES = _Option(Duplicates, pb.DuplicatesMode, "duplicates")
_PLACEMENT = _Option(Placement, pb.Placement, "placement")
_PARTIAL_LANES = _Option(PartialLanes, pb.PartialLanes, "partial_lanes")
_BUDGET_SPLIT = _Option(BudgetSplit, pb.BudgetSplit, "budget_split")
_MODE = _Option(RenderMode, pb.RenderMode, "render.mode")
_FENCE = _Option(Fence, pb.Fence, "render.fence")


def composition_fields(request: CompositionRequest) -> dict[str, Callable[[], Any]]:
    """The fields that carry it, each with what makes its value; strategy and tokenizer are the call's to name."""
    return {
        "as_of": lambda: request.as_of,
        "max_tokens": lambda: request.max_tokens,
        "max_frames": lambda: limit_number(request.max_frames),
        "max_frames_per_provider": lambda: limit_number(request.max_frames_per_provider),
        "max_frames_per_source": lambda: limit_number(request.max_frames_per_source),
        "floors": lambda: [
            strategy_pb2.Floor(provider_id=floor.provider, scale_id=floor.scale_id, value=floor.value)
            for floor in request.floors
        ],
        "duplicates": lambda: _DUPLICATES.number(request.duplicates),
        "placement": lambda: _PLACEMENT.number(request.placement),
        "fold_min_tokens": lambda: request.fold_min_tokens,
        "partial_lanes": lambda: _PARTIAL_LANES.number(request.partial_lanes),
        "render": lambda: pb.RenderOptions(
            mode=_MODE.number(request.mode),
            fence=_FENCE.number(request.fence),
            restate_question=bool(request.question),
            question=request.question,
        ),
        "include_local_scores": lambda: request.include_local_scores,
        "rerank": lambda: None if request.rerank is None else asked_message(request.rerank),
        "safety_factor": lambda: request.safety_factor,
        "budget_split": lambda: _BUDGET_SPLIT.number(request.budget_split),
    }


def read_composition_request(message: pb.ComposeRequest) -> CompositionRequest:
    """The inverse of :func:`composition_fields`.

    Raises:
        InvalidArgument: An option's value is not listed (``ENUM_UNKNOWN``); the safety factor is below 1
            (``SAFETY_FACTOR``); the question is to be restated in a mode that has no place for it
            (``RESTATE_QUESTION``).
    """
    render = message.render
    mode = _MODE.member(render.mode)
    asked = render.question or message.query_text or message.goal
    if render.restate_question and mode.data_alone:
        text = f"the output of mode {mode.value} is data alone; leave it out, or use FENCED or MARKDOWN"
        raise InvalidArgument.of([FieldViolation("render.restate_question", "RESTATE_QUESTION", text)])
    if 0 < message.safety_factor < 1:
        text = f"{message.safety_factor} would allow more than max_tokens; give 1 to 4, or leave it out"
        raise InvalidArgument.of([FieldViolation("safety_factor", "SAFETY_FACTOR", text)])
    return CompositionRequest(
        max_tokens=message.max_tokens,
        floors=tuple(Floor(floor.provider_id, floor.scale_id, floor.value) for floor in message.floors),
        duplicates=_DUPLICATES.member(message.duplicates),
        placement=_PLACEMENT.member(message.placement),
        partial_lanes=_PARTIAL_LANES.member(message.partial_lanes),
        max_frames=message.max_frames or None,
        max_frames_per_provider=message.max_frames_per_provider or None,
        max_frames_per_source=message.max_frames_per_source or None,
        safety_factor=message.safety_factor or 1.0,
        budget_split=_BUDGET_SPLIT.member(message.budget_split),
        fold_min_tokens=message.fold_min_tokens if message.HasField("fold_min_tokens") else DEFAULT_FOLD_MIN_TOKENS,
        as_of=message.as_of,
        mode=mode,
        fence=_FENCE.member(render.fence),
        question=asked if render.restate_question else "",
        include_local_scores=message.include_local_scores,
        rerank=read_asked(message.rerank) if message.HasField("rerank") else None,
    )
