"""Frames: the evidence that providers offer, as plain immutable values.

A frame is carried as its provider sent it. Nothing here judges it: :mod:`broker.core.intake` does.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from msgspec import Struct

KINDS: tuple[str, ...] = ("unspecified", "snippet", "symbol", "fact", "doc", "memory", "episode", "graph")
"""Names of the frame kinds, by their number on the wire. A number beyond them reads ``kind-<number>``."""


class Provenance(Struct, frozen=True, gc=False):
    """One step in how a frame came to be.

    Attributes:
        type: What the step is; ``file`` names a region of a file by ``uri`` and ``range``.
        uri: The resource.
        range: The region within it, such as ``L10-40``; empty for the whole resource.
        digest: Digest of exactly the region's bytes, ``sha256:<64 lower-case hex>``; empty when not known.
        method: How it was obtained; empty when not said.
        by: Who obtained it; empty for the provider.
    """

    type: str
    uri: str = ""
    range: str = ""
    digest: str = ""
    method: str = ""
    by: str = ""


class Relation(Struct, frozen=True, gc=False):
    """A tie from a frame to another resource."""

    rel: str
    target_uri: str = ""
    display_name: str = ""


class Frame(Struct, frozen=True, gc=False):
    """One piece of evidence.

    Attributes:
        id: The provider's own name for it, 1 to 512 UTF-8 bytes.
        title: Short human title, 1 to 1024 UTF-8 bytes.
        content: The evidence, at least one byte.
        score: The provider's score in its own scale; None only on an ``AS_SENT`` scale.
        kind: One of :data:`KINDS`, or ``kind-<number>``.
        citation_label: What a reader sees when it is cited, up to 512 UTF-8 bytes; empty: the title.
        uri: Where it lives; never opened.
        provenance: How it came to be, most direct first.
        relations: Ties to other resources.
        valid_from: Start of validity, ``YYYY-MM-DDTHH:MM:SS[.f]Z``; empty for none.
        valid_to: End of validity, exclusive; empty for none.
        recorded_at: When the provider learned of it; empty when not known.
        token_cost: Declared cost; when given it must equal :func:`content_tokens` of the content.
        content_digest: Declared digest; when given it must equal :func:`content_digest` of the content.
    """

    id: str
    title: str
    content: str
    score: float | None = None
    kind: str = "snippet"
    citation_label: str = ""
    uri: str = ""
    provenance: tuple[Provenance, ...] = ()
    relations: tuple[Relation, ...] = ()
    valid_from: str = ""
    valid_to: str = ""
    recorded_at: str = ""
    token_cost: int | None = None
    content_digest: str = ""


class FrameRef(Struct, frozen=True, gc=False, order=True):
    """Names one frame of one provider."""

    provider: str
    frame_id: str


def content_tokens(byte_length: int) -> int:
    """Tokens of a text of so many UTF-8 bytes: a quarter, rounded up (CGP B3)."""
    return (byte_length + 3) // 4


def tokens_of(byte_lengths: Iterable[int]) -> list[int]:
    """:func:`content_tokens` of each text."""
    return [(byte_length + 3) // 4 for byte_length in byte_lengths]


_AT_ONCE = 2047
"""Bytes that hashlib takes without letting another thread go on meanwhile. To wait for that one's turn to end takes a
thousand times as long as to hash a frame."""


def digest_of(data: bytes) -> str:
    """``sha256:<64 lower-case hex>`` of bytes."""
    return digests_of((data,))[0]


def digests_of(many: Iterable[bytes]) -> list[str]:
    """:func:`digest_of` of each."""
    digests = []
    for data in many:
        digest = sha256(data[:_AT_ONCE])
        if len(data) > _AT_ONCE:
            for start in range(_AT_ONCE, len(data), _AT_ONCE):
                digest.update(data[start : start + _AT_ONCE])
        digests.append("sha256:" + digest.hexdigest())
    return digests


def content_digest(content: str) -> str:
    """:func:`digest_of` the content's UTF-8 bytes."""
    return digest_of(content.encode())
