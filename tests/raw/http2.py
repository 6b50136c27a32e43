"""A client that speaks HTTP/2 by hand: what no gRPC library would send, and what comes back, frame by frame.

It uses the header compression and the names of the h2 package and none of its state machine, which refuses to do wrong.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import struct
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc
import hpack
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from broker.errors import BrokerError
from broker.wire.status import DETAILS_KEY, error_from_status, read_details

Headers = list[tuple[bytes, bytes]]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

WINDOW = 2**30
"""Bytes that a client which reads lets the server write before any update."""

FRAME = 16_384
"""Bytes of the largest frame that every server takes."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
ACK, END_STREAM, END_HEADERS, PADDED, PRIORITISED = 1, 1, 4, 8, 32


def request_headers(path: str, *more: tuple[str, str | bytes], method: str = "POST", te: bool = True) -> Headers:
    """The headers of a gRPC call; ``more`` follow them."""
    headers: list[tuple[str, str | bytes]] = [(":method", method), (":scheme", "http"), (":path", path)]
    headers += [(":authority", "broker"), *([("te", "trailers")] if te else ()), ("content-type", "application/grpc")]
    return [
        (name.encode(), value if isinstance(value, bytes) else value.encode("latin-1"))
        for name, value in [*headers, *more]
    ]


def message(data: bytes, flag: int = 0, announced: int | None = None) -> bytes:
    """A message behind gRPC's prefix; ``announced`` is the length that the prefix tells, where it is another."""
    return struct.pack(">BI", flag, len(data) if announced is None else announced) + data


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def reset(stream: int) -> bytes:
    """A frame that gives a stream up."""
    return frame(RST_STREAM, 0, stream, struct.pack(">I", ErrorCodes.CANCEL))


def settings(**values: int) -> bytes:
    """A SETTINGS frame; keywords are the names of :class:`h2.settings.SettingCodes`."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", SettingCodes[k], v) for k, v in values.items()))


@dataclass
class Outcome:
    """What one stream gave.

    Attributes:
        headers: First and last headers together.
        data: Bytes of the answer's messages, with their prefixes.
        reset: Why the server reset the stream; None where it did not.
        begun: Set once its first headers have come.
        done: Set once it is over.
    """

    headers: dict[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)
    reset: int | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def status(self) -> str:
        """The code's name; or how the stream ended without one."""
        if "grpc-status" in self.headers:
            number = int(self.headers["grpc-status"])
            return next(code.name for code in grpc.StatusCode if code.value[0] == number)
        if self.reset is not None:
            return f"RESET {ErrorCodes(self.reset).name}"
        return f"HTTP {self.headers[':status']}" if ":status" in self.headers else "CLOSED"

    @property
    def error(self) -> BrokerError:
        """The error of a stream that ended with a status."""
        text = self.headers.get(DETAILS_KEY)
        details = None if text is None else read_details(base64.b64decode(text + "=" * (-len(text) % 4)))
        return error_from_status(self.status, details, self.headers.get("grpc-message", ""))

    @property
    def reason(self) -> str:
        """The error's reason; the code's name where it came without details."""
        return self.error.reason

    @property
    def messages(self) -> list[bytes]:
        """The messages of the answer."""
        found, data = [], bytes(self.data)
        while data:
            size = int.from_bytes(data[1:5], "big")
            found.append(data[5 : 5 + size])
            data = data[5 + size :]
        return found


class RawClient:
    """One connection to a broker, with nothing between a test and the frames.

    Attributes:
        outcomes: What each stream gave so far.
        goaway: Why the server said that it would hang up; None while it has not.
        debug: What it said besides.
        settings: What the server said of itself.
        pongs: Pings that it answered.
        settled: Set once it has sent its settings.
        leaving: Set once it has said that it will hang up.
        closed: Set once it has hung up.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.outcomes: defaultdict[int, Outcome] = defaultdict(Outcome)
        self.goaway: int | None = None
        self.debug = b""
        self.settings: dict[int, int] = {}
        self.pongs = 0
        self.settled = asyncio.Event()
        self.leaving = asyncio.Event()
        self.closed = asyncio.Event()
        self.encoder = hpack.Encoder()
        self._decoder = hpack.Decoder(max_header_list_size=2**20)
        self._reader = reader
        self._writer = writer
        self._next = 1
        self._room = 65_535
        self._rooms: dict[int, int] = {}
        self._grown = asyncio.Event()
        self._reading = asyncio.create_task(self._read(), name="raw-reader")

    @classmethod
    @contextlib.asynccontextmanager
    async def connect(
        cls, address: str, *, window: int = WINDOW, tls: ssl.SSLContext | None = None
    ) -> AsyncIterator[RawClient]:
        """A connection that has exchanged settings; ``window`` is what the server may write of each stream."""
        host, _, port = address.rpartition(":")
        client = cls(*await asyncio.open_connection(host, int(port), ssl=tls))
        try:
            whole = frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", WINDOW))
            await client.send(PREFACE + settings(INITIAL_WINDOW_SIZE=window) + whole)
            await client.settled.wait()
            yield client
        finally:
            await client.close()

    async def close(self) -> None:
        """Hangs up, without a farewell."""
        self._writer.transport.abort()
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def send(self, data: bytes) -> None:
        """Writes bytes as they are; a server that has hung up is no error."""
        if not self._writer.is_closing():
            with contextlib.suppress(OSError):
                self._writer.write(data)
                await self._writer.drain()

    def head(self, headers: Headers, *, end: bool = False) -> tuple[int, bytes]:
        """A new stream's number, and the frames that open it."""
        stream, self._next = self._next, self._next + 2
        block = self.encoder.encode(headers)
        parts = [block[i : i + FRAME] for i in range(0, len(block), FRAME)]
        flags = [0] * (len(parts) - 1) + [END_HEADERS]
        first = frame(HEADERS, flags[0] | (END_STREAM if end else 0), stream, parts[0])
        more = zip(parts[1:], flags[1:], strict=True)
        return stream, first + b"".join(frame(CONTINUATION, flag, stream, part) for part, flag in more)

    async def open(self, headers: Headers, body: bytes = b"", *, end: bool = True) -> int:
        """Opens a stream with a body; its number."""
        stream, data = self.head(headers, end=end and not body)
        await self.send(data)
        await self.say(stream, body, end=end)
        return stream

    async def say(self, stream: int, body: bytes, *, end: bool = True) -> None:
        """Sends more of a stream's body, as fast as the server takes it; one that ends meanwhile gets no more."""
        over = self.outcomes[stream].done
        while body and not over.is_set():
            size = min(len(body), FRAME, self._room, self._rooms.setdefault(stream, self._most()))
            if size <= 0:
                self._grown.clear()
                await self._grown.wait()
                continue
            part, body = body[:size], body[size:]
            self._room -= size
            self._rooms[stream] -= size
            await self.send(frame(DATA, END_STREAM if end and not body else 0, stream, part))

    async def call(self, headers: Headers, body: bytes = b"", *, end: bool = True) -> Outcome:
        """Opens a stream and waits until it is over."""
        return await self.over(await self.open(headers, body, end=end))

    async def over(self, stream: int) -> Outcome:
        """What a stream gave once it is over, which it is too when the server hangs up."""
        outcome = self.outcomes[stream]
        await outcome.done.wait()
        return outcome

    def _most(self) -> int:
        return self.settings.get(SettingCodes.INITIAL_WINDOW_SIZE, 65_535)

    async def _read(self) -> None:
        try:
            while True:
                head = await self._reader.readexactly(9)
                payload = await self._reader.readexactly(int.from_bytes(head[:3], "big"))
                await self._take(head[3], head[4], int.from_bytes(head[5:], "big") & 0x7FFFFFFF, payload)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.closed.set()
            self.settled.set()
            self._grown.set()
            for outcome in self.outcomes.values():
                outcome.done.set()

    async def _take(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        outcome = self.outcomes[stream] if stream else Outcome()
        if kind == HEADERS:
            outcome.headers.update(self._decoder.decode(payload))
            outcome.begun.set()
        elif kind == DATA:
            outcome.data += payload
        elif kind == RST_STREAM:
            outcome.reset = int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            self.settings.update(struct.iter_unpack(">HI", payload))
            self.settled.set()
            await self.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and flags & ACK:
            self.pongs += 1
        elif kind == PING:
            await self.send(frame(PING, ACK, 0, payload))
        elif kind == GOAWAY:
            self.goaway, self.debug = int.from_bytes(payload[4:8], "big"), payload[8:]
            self.leaving.set()
        elif kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big")
            if stream:
                self._rooms[stream] = self._rooms.get(stream, self._most()) + more
            else:
                self._room += more
            self._grown.set()
        if kind == RST_STREAM or (kind in {HEADERS, DATA} and flags & END_STREAM):
            outcome.done.set()
            self._grown.set()
