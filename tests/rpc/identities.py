"""Principals of two tenants with a token each, and brokers that know them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from broker.auth.tokens import token_line
from broker.client.channel import end_sending, send
from broker.config import Config
from tests.rpc.peers import Answer, Peer, read_all

ROLES = {
    "search": 'tenant = "blue"\nrole = "provider"\nproviders = ["search", "files"]',
    "self": 'tenant = "blue"\nrole = "provider"\nproviders = ["self"]',
    "asks": 'tenant = "blue"\nrole = "orchestrator"',
    "runs": 'role = "operator"',
    "red-search": 'tenant = "red"\nrole = "provider"\nproviders = ["search", "secret"]',
    "red-asks": 'tenant = "red"\nrole = "orchestrator"',
    "nobody": "",
}
"""Every subject, with what its principal says besides; empty: it has none."""

PRINCIPALS = {subject: text for subject, text in ROLES.items() if text}


def token_of(subject: str) -> str:
    """A subject's token."""
    return f"token-of-{subject}-".ljust(40, "x")


def bearer(subject: str) -> tuple[tuple[str, str], ...]:
    """Metadata that shows a subject's token."""
    return (("authorization", f"Bearer {token_of(subject)}"),)


def write_whole(file: Path, text: str) -> None:
    """Writes a file as a careful operator does: never half."""
    fresh = file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(file)


class Identities:
    """The files of a broker that knows :data:`ROLES`, which a test may change while it runs."""

    def __init__(self, folder: Path, *, by: Sequence[str] = ("tokens",)) -> None:
        self.tokens_file = folder / "tokens"
        self.principals_file = folder / "principals.toml"
        self._by = by
        self.tokens(*ROLES)
        self.principals(PRINCIPALS)

    def tokens(self, *subjects: str) -> None:
        """From now on these subjects have tokens, and no others."""
        write_whole(self.tokens_file, "".join(token_line(token_of(subject), subject) + "\n" for subject in subjects))

    def principals(self, principals: dict[str, str]) -> None:
        """From now on these are what subjects may be."""
        by = ", ".join(f'"{kind}"' for kind in self._by)
        entries = (f'[[principals]]\nsubject = "{name}"\nby = [{by}]\n{text}\n' for name, text in principals.items())
        write_whole(self.principals_file, "\n".join(entries))

    def auth(self, **more: Any) -> dict[str, Any]:
        """The section of the configuration."""
        files = {"tokens_file": self.tokens_file, "principals_file": self.principals_file}
        return {"policy": "tokens", **files, **more}

    def config(self, **sections: Any) -> Config:
        """A whole configuration on a free port of loopback."""
        return Config(**{"server": {"listen": "127.0.0.1:0"}, "auth": self.auth(), **sections})


class Known(Peer):
    """A client with a credential."""

    def __init__(self, channel: grpc.aio.Channel, metadata: Sequence[tuple[str, str]]) -> None:
        super().__init__(channel)
        self.metadata = metadata

    def open(self, method: str, *, deadline: float | None = None, metadata: object = None) -> grpc.aio.StreamStreamCall:
        return super().open(method, deadline=deadline, metadata=metadata or self.metadata)


async def shown(peer: Peer, method: str, *messages: bytes, metadata: object = None) -> Answer:
    """A call with other metadata than the peer's own."""
    call = peer.open(method, metadata=metadata)
    for message in messages:
        if not await send(call, message):
            return await read_all(call)
    await end_sending(call)
    return await read_all(call)
