"""Fingerprints that hold a name together with its frame's provider and fate, instead of each by itself."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from zlib import crc32

import sqlalchemy as sa
from alembic import op
from msgspec import msgpack

revision = "0005"
down_revision = "0004"

AT_ONCE = 200
"""Compositions whose frames are read at once: those of one may be some hundred kilobytes."""

_COMPOSITIONS = sa.table(
    "compositions",
    sa.column("tenant", sa.Text),
    sa.column("composition_id", sa.Text),
    sa.column("fingerprints", sa.LargeBinary),
    sa.column("frames", sa.LargeBinary),
)

_unpacked = msgpack.Decoder(list[tuple[str, str, list[str]]]).decode


def upgrade() -> None:
    """Makes the fingerprints of every composition anew, of the frames that are kept beside them."""
    connection = op.get_bind()
    of = _COMPOSITIONS.c
    key = sa.tuple_(of.tenant, of.composition_id)
    following = sa.select(of.tenant, of.composition_id, of.frames).order_by(of.tenant, of.composition_id).limit(AT_ONCE)
    made_anew = (
        sa.update(_COMPOSITIONS)
        .where(of.tenant == sa.bindparam("whose"), of.composition_id == sa.bindparam("which"))
        .values(fingerprints=sa.bindparam("prints"))
    )
    last = ("", "")
    while rows := connection.execute(following.where(key > last)).all():
        prints = [
            {"whose": tenant, "which": composition_id, "prints": _fingerprints(_unpacked(frames))}
            for tenant, composition_id, frames in rows
        ]
        connection.execute(made_anew, prints)
        last = (rows[-1].tenant, rows[-1].composition_id)


def _fingerprints(groups: Iterable[tuple[str, str, list[str]]]) -> bytes:
    prints: list[int] = []
    for provider, reason, texts in groups:
        documents = {source or frame_id for frame_id, source in zip(texts[::2], texts[1::2], strict=True)}
        names = {"", *texts[::2], *(source.partition("#")[0].rstrip("/").rpartition("/")[2] for source in documents)}
        fate = (not reason) << 48 | (crc32(reason.encode()) >> 8 & 0xFF) << 56
        others = crc32(provider.encode()) & 0xFFFF | fate
        prints += [crc32(name.encode()) << 16 | others for name in names]
    return struct.pack(f"<{len(prints)}Q", *prints)
