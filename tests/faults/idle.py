"""Thousands of providers that attach and stay quiet: a bare HTTP/2 client, a few hundred bytes of memory each.

It says a Hello, acknowledges settings and answers pings, as the protocol asks of every peer, and reads the rest away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection

from broker.wire.events import Hello
from broker.wire.sessions import attach_request
from tests.rpc.peers import ATTACH

HEAD = 9
SETTINGS, PING, HEADERS, DATA, RST_STREAM, GOAWAY = 4, 6, 1, 0, 3, 7
ACK = 1


def opening(provider: str) -> bytes:
    """All that a provider sends to attach: the preface, its settings, the call's head and its Hello."""
    connection = H2Connection(H2Configuration(client_side=True))
    connection.initiate_connection()
    head = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", ATTACH),
        (":authority", "broker"),
        ("te", "trailers"),
        ("content-type", "application/grpc"),
    ]
    connection.send_headers(1, head)
    message = attach_request(Hello(provider, "one"))
    connection.send_data(1, b"\0" + len(message).to_bytes(4, "big") + message)
    return connection.data_to_send()


class IdleProvider(asyncio.Protocol):
    """One of them; ``on_change`` is told True when it was welcomed and False when its session or connection ended."""

    __slots__ = ("_buffer", "_on_change", "_provider", "_transport", "welcomed")

    def __init__(self, provider: str, on_change: Callable[[IdleProvider, bool], None]) -> None:
        self._provider = provider
        self._on_change = on_change
        self._buffer = b""
        self._transport: asyncio.Transport
        self.welcomed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are transports by what they do alone.
        self._transport = cast("asyncio.Transport", transport)
        transport.write(opening(self._provider))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= HEAD:
            length = int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < HEAD + length:
                return
            kind, flags, payload = self._buffer[3], self._buffer[4], self._buffer[HEAD : HEAD + length]
            self._buffer = self._buffer[HEAD + length :]
            self._frame(kind, flags, payload)

    def connection_lost(self, _: Exception | None) -> None:
        self._on_change(self, False)

    def close(self) -> None:
        """Without a word."""
        self._transport.abort()

    def _frame(self, kind: int, flags: int, payload: bytes) -> None:
        if kind == SETTINGS and not flags & ACK:
            self._transport.write(b"\0\0\0" + bytes([SETTINGS, ACK]) + b"\0\0\0\0")
        elif kind == PING and not flags & ACK:
            self._transport.write(b"\0\0\x08" + bytes([PING, ACK]) + b"\0\0\0\0" + payload)
        elif kind == DATA and not self.welcomed:
            self.welcomed = True
            self._on_change(self, True)
        elif kind in (RST_STREAM, GOAWAY):
            self._transport.close()


class Crowd:
    """Idle providers by the thousand.

    Attributes:
        welcomed: How many are attached now.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._place = host, int(port)
        self._members: list[IdleProvider] = []
        self._changed = asyncio.Event()
        self.welcomed = 0

    async def attach(self, names: list[str], *, at_once: int = 64) -> None:
        """Attaches them, so many at a time; returns once all were welcomed."""
        room = asyncio.Semaphore(at_once)
        target = self.welcomed + len(names)
        loop = asyncio.get_running_loop()

        def told(member: IdleProvider, welcomed: bool) -> None:
            if welcomed:
                self.welcomed += 1
                room.release()
            else:
                self.welcomed -= member.welcomed
            self._changed.set()

        for name in names:
            await room.acquire()
            _, member = await loop.create_connection(partial(IdleProvider, name, told), *self._place)
            self._members.append(member)
        while self.welcomed < target:
            self._changed.clear()
            await self._changed.wait()

    async def leave(self) -> None:
        """All of them, at once."""
        for member in self._members:
            member.close()
        while self.welcomed > 0:
            self._changed.clear()
            await self._changed.wait()
        self._members.clear()
