"""What users import: providers that answer, clients that ask, and the plain values that both speak in.

Nothing of gRPC stands in any of these. It is loaded when :class:`Provider`, :class:`ContextClient`,
:class:`OperatorClient`, :class:`BlockingContextClient` or :class:`Reranker` is first named, and not by the values.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from broker.client.answering import AnswerFunction
from broker.client.calls import ComposeOptions, Event
from broker.client.query import Query
from broker.client.records import CompositionFilter
from broker.core.audited import (
    AuditRow,
    AuditScore,
    AuditSummary,
    BudgetRecord,
    FloorRecord,
    LaneSummary,
    LimitConflict,
    LimitsRecord,
    Reason,
    RenderRecord,
    RerankOutcome,
    RerankRecord,
    StrategyRecord,
)
from broker.core.citations import Ambiguous, CitationReport, Cited, Invented, Near, verify_citations
from broker.core.composition import AuditState, Citation, Composition, Placed, Usage, UsageFigures
from broker.core.frames import KINDS, Frame, FrameRef, Provenance, Relation
from broker.core.lanes import LaneEnd, LaneUpdate, Unreadable
from broker.core.records import Observation, ProviderStatistics
from broker.core.request import (
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
from broker.core.scores import UNIT, Direction, ScoreScale
from broker.core.strategies import (
    Parameter,
    PerProviderQuota,
    PluginStrategy,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    Strategy,
    TrustWeighted,
)
from broker.errors import (
    Aborted,
    AlreadyExists,
    BrokerError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    Internal,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from broker.wire.events import Rejection, Violation
from broker.wire.listings import ListedInstance, ListedProvider, ListedStrategy
from broker.wire.records import ListedComposition, Record
from broker.wire.requests import ComposeCall, InlineLane
from broker.wire.reranking import RerankText
from broker.wire.snapshots import Snapshot
from broker.wire.updates import Accepted, LaneSource, OpenedLane

if TYPE_CHECKING:
    from broker.client.blocking import BlockingContextClient
    from broker.client.context import ContextClient
    from broker.client.operator import OperatorClient
    from broker.client.provider import Provider
    from broker.client.reranker import Reranker, ScoreFunction, Scores

__all__ = [
    "KINDS",
    "UNIT",
    "Aborted",
    "Accepted",
    "AlreadyExists",
    "Ambiguous",
    "AnswerFunction",
    "AuditRow",
    "AuditScore",
    "AuditState",
    "AuditSummary",
    "BlockingContextClient",
    "BrokerError",
    "BudgetRecord",
    "BudgetSplit",
    "Cancelled",
    "Citation",
    "CitationReport",
    "Cited",
    "ComposeCall",
    "ComposeOptions",
    "Composition",
    "CompositionFilter",
    "CompositionRequest",
    "ContextClient",
    "DeadlineExceeded",
    "Direction",
    "Duplicates",
    "Event",
    "FailedPrecondition",
    "Fence",
    "FieldViolation",
    "Floor",
    "FloorRecord",
    "Frame",
    "FrameRef",
    "InlineLane",
    "Internal",
    "InvalidArgument",
    "Invented",
    "LaneEnd",
    "LaneSource",
    "LaneSummary",
    "LaneUpdate",
    "LimitConflict",
    "LimitsRecord",
    "ListedComposition",
    "ListedInstance",
    "ListedProvider",
    "ListedStrategy",
    "Near",
    "NotFound",
    "Observation",
    "OpenedLane",
    "OperatorClient",
    "Parameter",
    "PartialLanes",
    "PerProviderQuota",
    "PermissionDenied",
    "Placed",
    "Placement",
    "PluginStrategy",
    "Precomputed",
    "Provenance",
    "Provider",
    "ProviderStatistics",
    "Query",
    "Reason",
    "ReciprocalRankFusion",
    "Record",
    "Rejection",
    "Relation",
    "RenderMode",
    "RenderRecord",
    "Rerank",
    "RerankOutcome",
    "RerankRecord",
    "RerankText",
    "Reranker",
    "ResourceExhausted",
    "RoundRobin",
    "ScoreDescending",
    "ScoreFunction",
    "ScoreScale",
    "Scores",
    "Snapshot",
    "Strategy",
    "StrategyRecord",
    "TrustWeighted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Unreadable",
    "Usage",
    "UsageFigures",
    "Violation",
    "verify_citations",
]

_LOADED_ON_USE = {
    "BlockingContextClient": "broker.client.blocking",
    "ContextClient": "broker.client.context",
    "OperatorClient": "broker.client.operator",
    "Provider": "broker.client.provider",
    "Reranker": "broker.client.reranker",
    "ScoreFunction": "broker.client.reranker",
    "Scores": "broker.client.reranker",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_ON_USE[name]), name)
