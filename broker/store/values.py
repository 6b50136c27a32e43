"""What the store takes and gives, as plain immutable values. Times are whole microseconds since the epoch."""

from __future__ import annotations

from msgspec import Struct


class KeptLane(Struct, frozen=True, gc=False, kw_only=True):
    """How one provider fared in one composition.

    Attributes:
        provider: The provider.
        end: Name of how its lane ended, such as ``COMPLETE``.
        violation: Stable reason of a lie; empty: none.
        offered: Frames offered.
        admitted: Frames that passed the checks and the floor.
        placed: Frames placed.
        tokens_placed: Tokens of their blocks.
    """

    provider: str
    end: str
    violation: str = ""
    offered: int = 0
    admitted: int = 0
    placed: int = 0
    tokens_placed: int = 0


class KeptFrames(Struct, frozen=True, gc=False):
    """What became of offered frames: those of one provider that had one fate.

    Attributes:
        provider: Whose they are.
        reason: Why they were left out; empty: they were placed.
        ids: As sent; one may be empty, and may come twice.
        sources: Where each says that it comes from, such as a file's URI; empty: it does not.
    """

    provider: str
    reason: str
    ids: list[str]
    sources: list[str]


class KeptComposition(Struct, frozen=True, gc=False, kw_only=True):
    """One composition.

    Attributes:
        tenant: Whose it is.
        composition_id: Its id, unique in the tenant.
        request_id: The request's name.
        subject: Who asked; empty where no one had to say.
        made_at: When.
        strategy: The ranking policy's name.
        head: Summary and usage, encoded.
        parts: Everything else that is kept, encoded, in order.
        lanes: Every lane.
        frames: Every frame offered, those of one provider and fate in the order of the audit.
    """

    tenant: str
    composition_id: str
    request_id: str
    subject: str
    made_at: int
    strategy: str
    head: bytes
    parts: tuple[bytes, ...]
    lanes: tuple[KeptLane, ...]
    frames: tuple[KeptFrames, ...]


class Head(Struct, frozen=True, gc=False):
    """A kept composition without its parts; the attributes are those of :class:`KeptComposition`."""

    composition_id: str
    request_id: str
    subject: str
    made_at: int
    strategy: str
    head: bytes


class Mark(Struct, frozen=True, gc=False, order=True):
    """Where a page ended: the last composition on it."""

    made_at: int
    composition_id: str
