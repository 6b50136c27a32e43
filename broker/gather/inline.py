"""The caller's own evidence: checked like a provider's, except that a lie refuses the request."""

from __future__ import annotations

from collections.abc import Iterable

from broker.core.frames import Frame
from broker.core.intake import LaneIntake
from broker.core.lanes import Grant, Lane, LaneEnd, Unreadable
from broker.core.scores import ScoreScale
from broker.errors import FieldViolation, InvalidArgument


def inline_lane(
    provider: str, scale: ScoreScale, frames: Iterable[Frame | Unreadable], grant: Grant, path: str
) -> Lane:
    """An inline lane, checked.

    Args:
        provider: The lane's name.
        scale: Of its scores.
        frames: As sent.
        grant: What it may hold.
        path: Field path of the lane in the request, such as ``inline_lanes[0]``.

    Raises:
        InvalidArgument: It holds a lie; the reason is the lie's. The sender is the caller, and no provider is blamed.
    """
    intake = LaneIntake(provider, scale, grant)
    lie = intake.take(frames)
    if lie is not None:
        where = f"frame {lie.frame_id!r}: " if lie.frame_id else ""
        raise InvalidArgument.of([FieldViolation(f"{path}.frames", lie.reason, f"{where}{lie.detail}")])
    return intake.close(LaneEnd.COMPLETE)
