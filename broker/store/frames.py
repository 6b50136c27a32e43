"""What became of a composition's frames, as bytes that are kept beside it, and how they are searched.

A row for every frame would cost more than all else that is kept together. So the frames are packed into one value, with
those of one provider that had one fate together; and a composition's fingerprints say what a search may hope to find in
it: four bytes for every name of a frame, and for every fate that a provider's frames had. Three of them are the name's,
and the last says whether such a frame was placed. They are sought as bytes in the midst of bytes, as any engine can;
by chance they may be there for nothing, so who is found by its fingerprints is unpacked and looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from zlib import crc32

from msgspec import msgpack

from broker.core.records import Filter, path_of
from broker.store.values import KeptFrame

Group = tuple[str, str, list[str]]
"""Provider, reason (empty: they were placed), and of each frame its id and its source, one after the other."""

NAME_BYTES = 3
"""Bytes of a fingerprint that are the name's."""

_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(list[Group]).decode


def same_text(value: str) -> str:
    """A peer's text as every engine can hold it (PostgreSQL has no place for a NUL); what is sought is mapped alike."""
    return value.replace("\x00", "\ufffd")


def grouped(frames: Iterable[KeptFrame]) -> list[Group]:
    """Frames by provider and fate, each group in their order."""
    groups: dict[tuple[str, str], list[str]] = {}
    for frame in frames:
        fate = (frame.provider, frame.reason)
        texts = groups.get(fate)
        if texts is None:
            texts = groups[fate] = []
        texts.append(same_text(frame.frame_id))
        texts.append(same_text(frame.source))
    return [(provider, reason, texts) for (provider, reason), texts in groups.items()]


def packed(groups: Sequence[Group]) -> bytes:
    """Groups as they are kept."""
    return _encode(groups)


def fingerprints(groups: Iterable[Group]) -> bytes:
    """What may be found among frames, as :func:`sought` seeks it."""
    placed: set[str] = set()
    left_out: set[str] = set()
    for provider, reason, texts in groups:
        names = left_out if reason else placed
        names.update(texts[::2])
        names |= _documents({source or frame_id for frame_id, source in _pairs(texts)})
        names |= {f"{provider}\0{reason}", f"\0{reason}", f"{provider}\0", "\0"}
    prints = _prints(placed, placed=True) | _prints(left_out, placed=False)
    return struct.pack(f"<{len(prints)}I", *prints)


def sought(wanted: Filter) -> Iterator[list[bytes]]:
    """Of each of these lists, one is among the fingerprints of every composition that was offered such a frame."""
    fate = wanted.placed
    if fate is None and wanted.reason:
        fate = False
    names: list[set[str]] = []
    if wanted.frame_id:
        names.append({same_text(wanted.frame_id)})
    if wanted.document:
        document = same_text(wanted.document)
        names.append({document} | _documents([document]))
    if wanted.provider or wanted.reason or wanted.placed is not None:
        names.append({f"{same_text(wanted.provider)}\0{same_text(wanted.reason)}"})
    for any_of in names:
        prints = [struct.pack("<I", each) for each in _prints(any_of, placed=bool(fate))]
        yield prints if fate is not None else [each[:NAME_BYTES] for each in prints]


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


def _prints(names: Iterable[str], *, placed: bool) -> set[int]:
    """The fingerprint of each name, little-endian."""
    fate = placed << 8 * NAME_BYTES
    return {crc32(name.encode()) & 0xFFFFFF | fate for name in names}
