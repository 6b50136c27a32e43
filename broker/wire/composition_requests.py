"""What a ``ComposeRequest`` says of the composition to make: its fields as a value, and back.

Unspecified options take the contract's defaults. An enum's value that this version does not list is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from contextbroker.v1 import context_service_pb2 as pb
from contextbroker.v1 import strategy_pb2

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
        "duplicates": lambda: pb.DuplicatesMode.Value(f"DUPLICATES_MODE_{request.duplicates.value}"),
        "placement": lambda: pb.Placement.Value(f"PLACEMENT_{request.placement.value}"),
        "fold_min_tokens": lambda: request.fold_min_tokens,
        "partial_lanes": lambda: pb.PartialLanes.Value(f"PARTIAL_LANES_{request.partial_lanes.value}"),
        "render": lambda: pb.RenderOptions(
            mode=pb.RenderMode.Value(f"RENDER_MODE_{request.mode.value}"),
            fence=pb.Fence.Value(f"FENCE_{request.fence.value}"),
            restate_question=bool(request.question),
            question=request.question,
        ),
        "include_local_scores": lambda: request.include_local_scores,
        "rerank": lambda: None if request.rerank is None else asked_message(request.rerank),
        "safety_factor": lambda: request.safety_factor,
        "budget_split": lambda: pb.BudgetSplit.Value(f"BUDGET_SPLIT_{request.budget_split.value}"),
    }


def read_composition_request(message: pb.ComposeRequest) -> CompositionRequest:
    """The inverse of :func:`composition_fields`.

    Raises:
        InvalidArgument: An option's value is not listed (``ENUM_UNKNOWN``); the safety factor is below 1
            (``SAFETY_FACTOR``); the question is to be restated in a mode that has no place for it
            (``RESTATE_QUESTION``).
    """
    render = message.render
    mode = _choice(RenderMode, pb.RenderMode, "RENDER_MODE", render.mode, "render.mode")
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
        duplicates=_choice(Duplicates, pb.DuplicatesMode, "DUPLICATES_MODE", message.duplicates, "duplicates"),
        placement=_choice(Placement, pb.Placement, "PLACEMENT", message.placement, "placement"),
        partial_lanes=_choice(PartialLanes, pb.PartialLanes, "PARTIAL_LANES", message.partial_lanes, "partial_lanes"),
        max_frames=message.max_frames or None,
        max_frames_per_provider=message.max_frames_per_provider or None,
        max_frames_per_source=message.max_frames_per_source or None,
        safety_factor=message.safety_factor or 1.0,
        budget_split=_choice(BudgetSplit, pb.BudgetSplit, "BUDGET_SPLIT", message.budget_split, "budget_split"),
        fold_min_tokens=message.fold_min_tokens if message.HasField("fold_min_tokens") else DEFAULT_FOLD_MIN_TOKENS,
        as_of=message.as_of,
        mode=mode,
        fence=_choice(Fence, pb.Fence, "FENCE", render.fence, "render.fence"),
        question=asked if render.restate_question else "",
        include_local_scores=message.include_local_scores,
        rerank=read_asked(message.rerank) if message.HasField("rerank") else None,
    )


def _choice(values: type[Choice], numbers: Any, prefix: str, number: int, path: str) -> Choice:
    """The member that an enum's number stands for; the first one where nothing was said, which is number 0."""
    if number not in numbers.values():
        raise InvalidArgument.of([unknown_value(path, number)])
    return values(numbers.Name(number).removeprefix(f"{prefix}_")) if number else next(iter(values))
