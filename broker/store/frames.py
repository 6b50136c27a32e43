"""What became of a composition's frames, as bytes that are kept beside it, and how they are searched.

A row for every frame would cost more than all else that is kept together. So the frames are packed into one value, with
those of one provider that had one fate together; and a composition's fingerprints say what a search may hope to find in
it: eight bytes for every name that frames of one provider and one fate have. Two of them are the provider's, four the
name's, one says whether such a frame was placed, and the last why it was not. Whatever is known of a frame that is
sought, it is a part of a fingerprint without a gap: its name, with the provider before it and the fate behind it where
they are known. It is sought as bytes in the midst of bytes, as any engine can; by chance they may be there for nothing,
so who is found by its fingerprints is unpacked and looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from zlib import crc32

from msgspec import msgpack

from broker.core.records import Filter, path_of
from broker.store.values import KeptFrames

Group = tuple[str, str, list[str]]
"""Provider, reason (empty: they were placed), and of each frame its id and its source, one after the other."""

ANY = ""
"""A name that every frame has, for a search that names none."""

_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(list[Group]).decode


def same_text(value: str) -> str:
    """A peer's text as every engine can hold it (PostgreSQL has no place for a NUL); what is sought is mapped alike."""
    return value.replace("\x00", "\ufffd")


def grouped(frames: Iterable[KeptFrames]) -> list[Group]:
    """Frames as every engine can hold them."""
    groups = []
    for each in frames:
        texts = [""] * (2 * len(each.ids))
        texts[::2], texts[1::2] = each.ids, each.sources
        if "\x00" in "".join(texts):
            texts = [same_text(text) for text in texts]
        groups.append((each.provider, each.reason, texts))
    return groups


def packed(groups: Sequence[Group]) -> bytes:
    """Groups as they are kept."""
    return _encode(groups)


def fingerprints(groups: Iterable[Group]) -> bytes:
    """What may be found among frames, as :func:`sought` seeks it."""
    names: list[str] = []
    others = []
    for provider, reason, texts in groups:
        documents = _documents([source or frame_id for frame_id, source in _pairs(texts)])
        own = [ANY, *texts[::2], *documents]
        names += own
        others.append(_nameless(provider, reason, placed=not reason) * len(own))
    return _prints(names, b"".join(others))


def sought(wanted: Filter) -> Iterator[list[bytes]]:
    """Of each of these lists, one is among the fingerprints of every composition that was offered such a frame."""
    names: list[set[str]] = []
    if wanted.frame_id:
        names.append({same_text(wanted.frame_id)})
    if wanted.document:
        document = same_text(wanted.document)
        names.append({document} | _documents([document]))
    start = 0 if wanted.provider else 2
    end = 8 if wanted.reason else 6 if wanted.placed is None else 7
    nameless = _nameless(same_text(wanted.provider), same_text(wanted.reason), placed=bool(wanted.placed))
    for any_of in names or [{ANY}]:
        prints = _prints(any_of, nameless * len(any_of))
        yield [prints[at + start : at + end] for at in range(0, len(prints), 8)]


def offered(data: bytes, wanted: Filter) -> bool:
    """Whether among packed frames there is one of which all that a filter says of frames is true."""
    provider, reason = same_text(wanted.provider), same_text(wanted.reason)
    return any(
        _named(texts, same_text(wanted.frame_id), same_text(wanted.document))
        for whose, why, texts in _decode(data)
        if (not provider or whose == provider)
        and (not reason or why == reason)
        and (wanted.placed is None or wanted.placed == (not why))
    )


def placed(data: bytes) -> set[tuple[str, str]]:
    """Provider and id of every placed frame of packed ones, ids as :func:`same_text` gives them."""
    return {(provider, frame_id) for provider, reason, texts in _decode(data) if not reason for frame_id in texts[::2]}


def _named(texts: list[str], frame_id: str, document: str) -> bool:
    """Whether a frame has an id and is of a document; either may be empty, and is then not asked for."""
    path = path_of(document)
    return any(
        (not frame_id or own == frame_id) and (not document or own == document or _of_document(source or own, path))
        for own, source in _pairs(texts)
    )


def _of_document(source: str, path: str) -> bool:
    """Whether a source's whole path, or the last segments of it, are a path."""
    own = path_of(source)
    return path != "" and (own == path or own.endswith(f"/{path}"))


def _pairs(texts: list[str]) -> Iterator[tuple[str, str]]:
    """Id and source of each frame of a group."""
    return zip(texts[::2], texts[1::2], strict=True)


def _documents(sources: Iterable[str]) -> set[str]:
    """What documents are looked up by: the last segments of their paths."""
    return {source.partition("#")[0].rstrip("/").rpartition("/")[2] for source in sources}


@lru_cache(maxsize=1024)
def _nameless(provider: str, reason: str, *, placed: bool) -> bytes:
    """A fingerprint without its name."""
    return struct.pack("<H4xBB", crc32(provider.encode()) & 0xFFFF, placed, crc32(reason.encode()) >> 8 & 0xFF)


def _prints(names: Collection[str], nameless: bytes) -> bytes:
    """The fingerprint of each name, put into those that have none yet. There is no NUL in a name."""
    if not names:
        return b""
    found = struct.pack(f"<{len(names)}I", *map(crc32, "\0".join(names).encode().split(b"\0")))
    prints = bytearray(nameless)
    for n in range(4):
        # The same byte of every name at once.
        prints[2 + n :: 8] = found[n::4]
    return bytes(prints)
