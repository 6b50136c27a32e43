"""Real folders and real repositories for the ready-made providers, and the check that a frame tells the truth."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote_to_bytes, urlsplit

import pytest

from broker.client.query import Query
from broker.core.frames import Frame, content_digest, content_tokens
from broker.providers import PROVIDERS

IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Bob",
    "GIT_COMMITTER_EMAIL": "bob@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


@pytest.fixture
def ask() -> Callable[..., Query]:
    def make(text: str, **rest) -> Query:
        return Query(goal=text, **rest)

    return make


@pytest.fixture
def write(folder: Path) -> Callable[..., Path]:
    """Writes files below a folder of the test's own: ``write("a/b.md", "text")``."""

    def make(name: str | bytes, content: str | bytes = "text\n") -> Path:
        path = folder / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return make


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path.resolve() / "folder"
    path.mkdir()
    return path


@pytest.fixture
def run_git(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs git in a folder under an identity that no machine's own settings change."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)

    def run(where: Path, *arguments: str, date: str = "2026-01-02T03:04:05+02:00", message: bytes | None = None) -> str:
        dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = subprocess.run(
            ["git", *arguments], cwd=where, env=os.environ | dates, input=message, capture_output=True, check=True
        )
        return done.stdout.decode().strip()

    return run


@pytest.fixture
def opened() -> Iterator[Callable]:
    """Opens providers and closes them afterwards: ``opened("files", folder)``."""
    providers = []

    def make(name: str, where: Path):
        provider = PROVIDERS[name].open(where)
        providers.append(provider)
        return provider

    yield make
    for provider in providers:
        provider.close()


@pytest.fixture
def check_frame() -> Callable[[Frame], None]:
    """Reads a frame's region from the disk by its URI and range alone, and compares."""

    def check(frame: Frame) -> None:
        source = frame.provenance[0]
        data = Path(os.fsdecode(unquote_to_bytes(urlsplit(source.uri).path))).read_bytes()
        first, last = (int(part) for part in source.range.removeprefix("L").split("-"))
        lines = data.splitlines(keepends=True) if b"\r" not in data else _by_newline(data)
        region = b"".join(lines[first - 1 : last])
        assert source.type == "file"
        assert 1 <= first <= last <= len(lines)
        assert frame.content.encode() == region
        assert source.digest == "sha256:" + hashlib.sha256(region).hexdigest() == content_digest(frame.content)
        assert frame.content_digest == source.digest
        assert frame.citation_label.endswith(f" {source.range}")
        assert len(frame.id.encode()) <= 512
        assert 1 <= len(frame.title.encode()) <= 1024
        assert len(frame.citation_label.encode()) <= 512
        assert frame.token_cost in {None, content_tokens(len(region))}

    return check


def _by_newline(data: bytes) -> list[bytes]:
    lines, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        lines.append(data[at:end])
        at = end
    return lines
