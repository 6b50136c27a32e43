"""The loads that are measured, and the frames that their providers answer with.

Frames are prose of a few hundred words, or code, the same in every run, each with what an honest provider sends: a
score, a cost, a digest, a label and where it comes from. One in twenty is another provider's too, so that duplicates
are met.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from contextbroker.v1 import context_service_pb2, frame_pb2

from broker.core.frames import content_digest, content_tokens
from broker.wire.batches import join_batch

SHARED_EVERY = 20
"""Of so many frames one has the bytes of its neighbour's."""

_WORDS = [
    "the",
    "a",
    "of",
    "to",
    "and",
    "in",
    "is",
    "for",
    "on",
    "with",
    "as",
    "by",
    "at",
    "from",
    "this",
    "that",
    "it",
    "be",
    "are",
    "was",
    "request",
    "response",
    "queue",
    "index",
    "lease",
    "retry",
    "deadline",
    "token",
    "budget",
    "window",
    "frame",
    "stream",
    "session",
    "broker",
    "provider",
    "caller",
    "lane",
    "score",
    "order",
    "rank",
    "copy",
    "digest",
    "record",
    "when",
    "where",
    "then",
    "after",
    "before",
    "until",
    "while",
    "only",
    "never",
    "always",
    "must",
    "may",
    "each",
    "both",
    "none",
    "some",
    "first",
    "last",
    "next",
    "small",
]

_CODE = [
    "if (a < b && *p != '\\0') {",
    "    return vec<T>{x -> y, `raw`};",
    "/* naïve – señales, größer als 16 KiB → später */",
    "std::map<std::string, std::vector<int>> by_name;",
    "```",
    "let total = items.iter().map(|i| i.size & 0xff).sum::<u64>();",
    '<a href="?q=1&amp;r=2">注文の一覧</a>',
    "x := <-done // ⌘ ещё раз",
    "}",
]
"""Lines of what has to be escaped or fenced, and of more bytes than characters."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is asked again and again.

    Attributes:
        name: Its name in a report.
        providers: How many answer.
        frames: How many each of them sends.
        content_bytes: Of one frame's content.
        concurrency: Requests in flight.
        batch: Frames in one message of a provider's.
        only: Whether the request names its providers, and asks no others that are attached.
        code: Whether contents are like code, with much to escape and more bytes than characters; else prose.
        whole: Whether the broker's limits are raised so that every frame is placed; else it has its defaults.
    """

    name: str
    providers: int
    frames: int
    content_bytes: int
    concurrency: int
    batch: int = 25
    whole: bool = False
    code: bool = False
    only: bool = False

    @property
    def offered(self) -> int:
        """Frames that one request gathers."""
        return self.providers * self.frames

    @property
    def max_tokens(self) -> int:
        """A budget that holds all of it, where the daemon's defaults allow so much."""
        needed = self.offered * (self.content_bytes // 4 + 120) + 1000
        return needed if self.whole else min(needed, 1_000_000)


LOADS = {
    load.name: load
    for load in (
        Load("typical", 4, 25, 1024, 8),
        Load("small", 3, 5, 512, 1),
        Load("small-16", 3, 5, 512, 16),
        Load("heavy", 16, 200, 2048, 4),
        Load("heavy-whole", 16, 200, 2048, 4, whole=True),
        Load("wide", 100, 5, 1024, 4),
        Load("one-frame", 4, 25, 1024, 8, batch=1),
        Load("code", 4, 25, 1024, 8, code=True),
    )
}


def provider_name(place: int) -> str:
    """The name of the provider at a place from 0."""
    return f"provider-{place:03}"


def provider_frames(load: Load, place: int) -> list[bytes]:
    """The encoded frames of the provider at a place, best first."""
    return [_frame(load, place, number).SerializeToString() for number in range(load.frames)]


def provider_batches(load: Load, place: int) -> list[bytes]:
    """The same as serialized batches that name no query."""
    frames = provider_frames(load, place)
    return [join_batch("", frames[start : start + load.batch]) for start in range(0, len(frames), load.batch)]


def question(load: Load) -> bytes:
    """The serialized request."""
    request = context_service_pb2.ComposeRequest(
        goal="why does a retried request lose its lease",
        max_tokens=load.max_tokens,
        max_frames=load.offered if load.whole else 0,
        providers=[provider_name(place) for place in range(load.providers)] if load.only else (),
    )
    request.collect_timeout.seconds = 30
    return request.SerializeToString()


def _frame(load: Load, place: int, number: int) -> frame_pb2.Frame:
    shared = number % SHARED_EVERY == SHARED_EVERY - 1
    seed = f"{place // 2 if shared else place}/{number}{'/shared' if shared else ''}"
    content = (code if load.code else prose)(seed, load.content_bytes)
    return frame_pb2.Frame(
        id=f"docs/{provider_name(place)}/{number:05}",
        kind=frame_pb2.FRAME_KIND_SNIPPET,
        title=f"Section {number} of the notes of {provider_name(place)}",
        content=content,
        score=1.0 - number / (load.frames + 1),
        token_cost=content_tokens(len(content.encode())),
        citation_label=f"notes {place}.{number}",
        content_digest=content_digest(content),
        uri=f"file:///notes/{place}/{number}.md",
        provenance=[
            frame_pb2.Provenance(type="file", uri=f"file:///notes/{place}/{number}.md", range="L1-40", method="bm25")
        ],
    )


def prose(seed: str, size: int) -> str:
    """So many ASCII characters of words in lines, the same for the same seed."""
    chosen = random.Random(seed)
    words = chosen.choices(_WORDS, k=size // 2 + 1)
    lines = [" ".join(words[start : start + 12]) for start in range(0, len(words), 12)]
    return "\n".join(lines)[:size]


def code(seed: str, size: int) -> str:
    """So many UTF-8 bytes of lines like code's, the same for the same seed."""
    lines = "\n".join(random.Random(seed).choices(_CODE, k=size // 8 + 1))
    text = lines.encode()[:size].decode(errors="ignore")
    return text + " " * (size - len(text.encode()))
