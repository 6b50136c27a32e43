"""Handles: all that a ranking policy of someone else's sees of a frame, and what such a policy has to be.

No score is reachable from a handle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from broker.core.frames import FrameRef
from broker.core.strategies import Parameter


class Handle(Struct, frozen=True, gc=False):
    """What a policy sees of a frame.

    Attributes:
        index: By which the policy returns it.
        provider: Whose copy was kept.
        frame_id: The provider's name for it.
        lane_order: Its lane's place among all, from 0.
        local_rank: Its place in its lane, from 1, duplicates gone.
        lane_places: Of every provider that holds the evidence, in voucher order: (provider, place in that lane from 1,
            its own repeats gone).
        names: Every copy of the evidence, repeats too.
        cost: Tokens of its block.
        kind: As sent.
        recorded_at: As sent; may be empty.
    """

    index: int
    provider: str
    frame_id: str
    lane_order: int
    local_rank: int
    lane_places: tuple[tuple[str, int], ...]
    names: tuple[FrameRef, ...]
    cost: int
    kind: str
    recorded_at: str

    @property
    def vouchers(self) -> int:
        """Providers that hold the evidence."""
        return len(self.lane_places)


class RankingPlugin(Protocol):
    """A ranking policy of someone else's.

    Attributes:
        name: As requests and the operator's configuration name it; its entry point's name.
        version: Its own version, at most 64 characters; it stands in every audit.
        description: Which comparison it makes and which it refuses.
        parameters: What it takes; a request that gives any other is refused.
    """

    name: str
    version: str
    description: str
    parameters: tuple[Parameter, ...]

    def order(self, handles: Sequence[Handle], params: Mapping[str, object]) -> Sequence[int]:
        """The order of the frames.

        Called for several requests at once, from several threads. The answer is a function of the arguments alone.

        Args:
            handles: Every frame that is ranked, in lane order, then best first.
            params: Values as JSON has them (whole numbers are integers), every default filled in.

        Returns:
            The handles' indices, best first, each once.
        """
        ...
