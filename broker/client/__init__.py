"""What users import: providers that answer, clients that ask, and the plain values that both speak in.

Nothing of gRPC stands in any of these. It is loaded when :class:`Provider`, :class:`ContextClient` or
:class:`BlockingContextClient` is first named, and not by the values.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from broker.client.query import Query
from broker.core.composition import Composition, Placed
from broker.core.frames import Frame, Provenance, Relation
from broker.core.request import Duplicates, Fence, Floor, PartialLanes, Placement
from broker.core.scores import UNIT, Direction, ScoreScale
from broker.core.strategies import (
    PerProviderQuota,
    Precomputed,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
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
from broker.gather.events import Rejection
from broker.gather.fabric import Violation
from broker.wire.listings import ListedInstance, ListedProvider, ListedStrategy
from broker.wire.requests import InlineLane
from broker.wire.updates import Accepted, LaneSource, LaneUpdate, OpenedLane

if TYPE_CHECKING:
    from broker.client.blocking import BlockingContextClient
    from broker.client.context import ContextClient
    from broker.client.provider import Provider

__all__ = [
    "UNIT",
    "Aborted",
    "Accepted",
    "AlreadyExists",
    "BlockingContextClient",
    "BrokerError",
    "Cancelled",
    "Composition",
    "ContextClient",
    "DeadlineExceeded",
    "Direction",
    "Duplicates",
    "FailedPrecondition",
    "Fence",
    "FieldViolation",
    "Floor",
    "Frame",
    "InlineLane",
    "Internal",
    "InvalidArgument",
    "LaneSource",
    "LaneUpdate",
    "ListedInstance",
    "ListedProvider",
    "ListedStrategy",
    "NotFound",
    "OpenedLane",
    "PartialLanes",
    "PerProviderQuota",
    "PermissionDenied",
    "Placed",
    "Placement",
    "Precomputed",
    "Provenance",
    "Provider",
    "Query",
    "ReciprocalRankFusion",
    "Rejection",
    "Relation",
    "ResourceExhausted",
    "RoundRobin",
    "ScoreDescending",
    "ScoreScale",
    "TrustWeighted",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "Violation",
]

_LOADED_ON_USE = {
    "BlockingContextClient": "broker.client.blocking",
    "ContextClient": "broker.client.context",
    "Provider": "broker.client.provider",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_ON_USE[name]), name)
