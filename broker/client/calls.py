"""What the asynchronous and the blocking client share: requests made of keywords, answers turned into events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Required, TypeAlias, TypedDict, TypeVar, get_origin, get_type_hints

from contextbroker.v1 import context_service_pb2 as pb
from google.protobuf.message import DecodeError, Message
from msgspec.structs import replace

from broker.client.outgoing import batches_of, encoded
from broker.core.composition import Composition, Placed
from broker.core.frames import Frame
from broker.core.lanes import LaneUpdate
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
    Rerank,
)
from broker.core.scores import ScoreScale
from broker.core.strategies import Strategy
from broker.errors import FieldViolation, Internal, InvalidArgument
from broker.wire.compositions import CompositionReader
from broker.wire.pushes import PushHeader, push_header, push_part
from broker.wire.requests import ComposeCall, InlineLane, compose_request
from broker.wire.snapshots import Snapshot, SnapshotReader
from broker.wire.typed import held, require
from broker.wire.updates import Accepted, read_accepted, read_lane_updates

COMPOSE = "/contextbroker.v1.ContextService/Compose"
LIST_PROVIDERS = "/contextbroker.v1.ContextService/ListProviders"
LIST_STRATEGIES = "/contextbroker.v1.ContextService/ListStrategies"
PUSH = "/contextbroker.v1.ProviderService/Push"
ATTACH = "/contextbroker.v1.ProviderService/Attach"

Event: TypeAlias = Accepted | LaneUpdate | Snapshot | Placed | Composition
"""What a stream yields: one ``Accepted``; lane updates and, on request, snapshots; placed frames in prompt order; and
last the composition."""


class ComposeOptions(TypedDict, total=False):
    """Everything that one question may say besides its goal.

    Attributes:
        max_tokens: Tokens that the whole prompt may take, preamble and fences included; at least 1. Required.
        query_text: The question as retrieval should read it; empty: the goal.
        strategy: The ranking policy; None: the operator's default.
        floors: Least scores, each of one named provider in its own scale.
        providers: Providers to ask; empty: all that are attached.
        required_providers: Providers without which there is no answer.
        expect_pushes: Providers that push under ``request_id``; waited for and not asked.
        inline_lanes: The caller's own evidence.
        no_providers: Asks no attached provider.
        kinds: Kinds of frames wanted; empty: any.
        anchors: Resources at hand, as URIs.
        as_of: Moment that the evidence should hold for, ``YYYY-MM-DDTHH:MM:SS[.f]Z``; empty: any.
        max_frames: Frames that may be placed, at least 1; None: the operator's cap.
        max_frames_per_provider: Frames of one provider that may be placed, at least 1; None: no limit.
        max_frames_per_source: Frames of one source (its first ``file`` provenance, or else its URI) that are placed
            before any more of it, at least 1; None: no limit.
        tokenizer: What counts tokens: ``bytes/4``, or a tokenizer's name, as the operator set it up; empty: the
            operator's default.
        safety_factor: Divides ``max_tokens``, for a model whose own count may be higher; 1 to 4.
        budget_split: What each lane is granted of ``max_tokens``.
        budget_weights: With ``WEIGHTED``: parts by provider, each above 0; a lane that is not named weighs 1.
        collect_timeout: Seconds to collect; None: the broker's default.
        duplicates: Which frames are the same evidence.
        placement: Where frames stand.
        fold_min_tokens: Tokens of a prompt from which on the placement ``AUTO`` folds; below, it is ``RANK_ORDER``.
        partial_lanes: What becomes of frames of lanes that were cut short.
        mode: The form that the context is written in.
        fence: How fences are made.
        restate_question: Puts the question above the evidence and again below it.
        question: What to restate; implies ``restate_question``. Empty: ``query_text``, then the goal.
        include_local_scores: Puts each frame's own score into its audit row.
        request_id: The caller's name for the request, unique while it runs; empty: the broker makes one.
        rerank: A second ranking by a reranker of the broker's, such as ``Rerank("lexical", top_n=10)``; None: none.
        snapshots: Yields a ``Snapshot``, whole in itself, each time a lane has ended and others have not; for those who
            may stop reading before the end. ``compose()`` passes them over.
    """

    max_tokens: Required[int]
    query_text: str
    strategy: Strategy | None
    floors: Iterable[Floor]
    providers: Iterable[str]
    required_providers: Iterable[str]
    expect_pushes: Iterable[str]
    inline_lanes: Iterable[InlineLane]
    no_providers: bool
    kinds: Iterable[str]
    anchors: Iterable[str]
    as_of: str
    max_frames: int | None
    max_frames_per_provider: int | None
    max_frames_per_source: int | None
    tokenizer: str
    safety_factor: float
    budget_split: BudgetSplit
    budget_weights: Mapping[str, float]
    collect_timeout: float | None
    duplicates: Duplicates
    placement: Placement
    fold_min_tokens: int
    partial_lanes: PartialLanes
    mode: RenderMode
    fence: Fence
    restate_question: bool
    question: str
    include_local_scores: bool
    request_id: str
    rerank: Rerank | None
    snapshots: bool


_HINTS: Mapping[str, Any] = get_type_hints(ComposeOptions)


def compose_data(goal: str, options: ComposeOptions) -> bytes:
    """A serialized request.

    Raises:
        TypeError: An option that does not exist, or ``max_tokens`` is missing.
        InvalidArgument: An option is of another type, or has a value that the wire cannot carry, with the field's path.
    """
    return compose_request(_call(goal, **_checked(goal, options))).SerializeToString()


def _checked(goal: str, options: ComposeOptions) -> ComposeOptions:
    for name in options:
        if name not in _HINTS:
            near = get_close_matches(name, _HINTS, 1)
            advice = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(_HINTS))}"
            raise TypeError(f"compose() and stream() take no option {name!r}; {advice}")
    if "max_tokens" not in options:
        raise TypeError("compose() and stream() need max_tokens: the tokens that the whole prompt may take")
    values: Any = {
        name: held(value) if get_origin(_HINTS[name]) is Iterable else value for name, value in options.items()
    }
    if isinstance(lanes := values.get("inline_lanes"), Collection):
        values["inline_lanes"] = [
            replace(lane, frames=held(lane.frames)) if isinstance(lane, InlineLane) else lane for lane in lanes
        ]
    require(("goal", goal, str), *((name, value, _HINTS[name]) for name, value in values.items()))
    checked: ComposeOptions = values
    return checked


def _call(
    goal: str,
    *,
    max_tokens: int,
    query_text: str = "",
    strategy: Strategy | None = None,
    floors: Iterable[Floor] = (),
    providers: Iterable[str] = (),
    required_providers: Iterable[str] = (),
    expect_pushes: Iterable[str] = (),
    inline_lanes: Iterable[InlineLane] = (),
    no_providers: bool = False,
    kinds: Iterable[str] = (),
    anchors: Iterable[str] = (),
    as_of: str = "",
    max_frames: int | None = None,
    max_frames_per_provider: int | None = None,
    max_frames_per_source: int | None = None,
    tokenizer: str = "",
    safety_factor: float = 1.0,
    budget_split: BudgetSplit = BudgetSplit.FULL,
    budget_weights: Mapping[str, float] | None = None,
    collect_timeout: float | None = None,
    duplicates: Duplicates = Duplicates.SAME_BYTES,
    placement: Placement = Placement.FOLD,
    fold_min_tokens: int = DEFAULT_FOLD_MIN_TOKENS,
    partial_lanes: PartialLanes = PartialLanes.KEEP,
    mode: RenderMode = RenderMode.FENCED,
    fence: Fence = Fence.SEALED,
    restate_question: bool = False,
    question: str = "",
    include_local_scores: bool = False,
    request_id: str = "",
    rerank: Rerank | None = None,
    snapshots: bool = False,
) -> ComposeCall:
    asked = question or query_text or goal
    return ComposeCall(
        goal=goal,
        composition=CompositionRequest(
            max_tokens=max_tokens,
            floors=tuple(floors),
            duplicates=duplicates,
            placement=placement,
            partial_lanes=partial_lanes,
            max_frames=max_frames,
            max_frames_per_provider=max_frames_per_provider,
            max_frames_per_source=max_frames_per_source,
            safety_factor=safety_factor,
            budget_split=budget_split,
            fold_min_tokens=fold_min_tokens,
            as_of=as_of,
            mode=mode,
            fence=fence,
            question=asked if restate_question or question else "",
            include_local_scores=include_local_scores,
            rerank=rerank,
        ),
        request_id=request_id,
        query_text=query_text,
        kinds=tuple(kinds),
        anchors=tuple(anchors),
        providers=tuple(providers),
        required_providers=tuple(required_providers),
        expect_pushes=tuple(expect_pushes),
        inline_lanes=tuple(InlineLane(lane.provider, lane.scale, tuple(lane.frames)) for lane in inline_lanes),
        no_providers=no_providers,
        collect_timeout=collect_timeout,
        strategy=strategy,
        tokenizer=tokenizer,
        budget_weights=budget_weights or {},
        snapshots=snapshots,
    )


Parsed = TypeVar("Parsed", bound=Message)


def parsed(kind: type[Parsed], data: bytes) -> Parsed:
    """A message of the broker's.

    Raises:
        Internal: The bytes do not parse (``ANSWER_BROKEN``).
    """
    try:
        return kind.FromString(data)
    except DecodeError:
        text = f"the answer is not a {kind.DESCRIPTOR.name}: its bytes do not parse; is it a broker that answers?"
        raise Internal("ANSWER_BROKEN", text) from None


class Answer:
    """Turns the messages of one answer into events."""

    def __init__(self) -> None:
        self._reader = CompositionReader()
        self._snapshots = SnapshotReader()

    def take(self, data: bytes) -> Iterator[Event]:
        """The events of one message, in order; none where it brings nothing that is told by itself.

        Raises:
            Internal: The bytes are not part of an answer, or follow its end (``ANSWER_BROKEN``).
        """
        message = parsed(pb.ComposeResponse, data)
        placed = self._reader.take(message)
        if message.HasField("accepted"):
            accepted = read_accepted(message.accepted)
            self._snapshots = SnapshotReader(accepted.request_id)
            yield accepted
        yield from read_lane_updates(message.lane_updates)
        if message.HasField("snapshot"):
            snapshot = self._snapshots.take(message.snapshot)
            if snapshot is not None:
                yield snapshot
        yield from placed

    def result(self) -> Composition:
        """The whole composition, once the answer has ended well.

        Raises:
            Internal: The answer was not whole (``ANSWER_BROKEN``).
        """
        return self._reader.result()


def push_data(provider: str, request_id: str, frames: Iterable[Frame], scale: ScoreScale) -> list[bytes]:
    """The serialized parts of a delivery.

    Raises:
        InvalidArgument: A value of another type, or one that the wire cannot carry, with the field's path.
    """
    require(("provider", provider, str), ("request_id", request_id, str), ("scale", scale, ScoreScale))
    frames = held(frames)
    if not isinstance(frames, Collection) or isinstance(frames, str | bytes | Mapping):
        require(("frames", frames, Iterable[Frame]))
    try:
        header = push_header(PushHeader(provider, request_id, scale))
    except UnicodeEncodeError:
        text = "provider or request_id has a lone surrogate; send valid text"
        raise InvalidArgument.of([FieldViolation("header", "TEXT_MALFORMED", text)]) from None
    return [header, *map(push_part, batches_of(encoded(frames)))]
