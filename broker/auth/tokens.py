"""Bearer tokens of which the operator keeps the hashes.

A line of the file is ``sha256:<64 lower-case hex> subject``; empty lines and those that start with ``#`` say nothing.
Several tokens may stand for one subject, as while one replaces another; a token taken out of the file is revoked.
The hash needs no salt and no stretching, since a token is no password: ``context-broker token new`` makes it of 256
random bits, and short ones are refused. It is also why looking it up in a table tells nothing by its time.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from hashlib import sha256

from broker.auth.files import WatchedFile
from broker.auth.parts import Identified, Kind, Presented, Refused

MIN_TOKEN = 32
"""Characters of a token. A shorter one, such as a word that someone chose, is refused even where its hash is known."""

MAX_SUBJECT = 512
"""Characters of a subject."""

_LINE = re.compile(r"sha256:([0-9a-f]{64})[ \t]+(\S.*)")


def new_token() -> str:
    """A token that no one can guess."""
    return f"cbt_{secrets.token_urlsafe(32)}"


def token_line(token: str, subject: str) -> str:
    """The line of the tokens file that lets a token stand for a subject.

    Raises:
        ValueError: The subject cannot be one.
    """
    check_subject(subject)
    return f"sha256:{_hash(token)} {subject}"


def check_subject(subject: str) -> None:
    """Refuses what cannot name a subject.

    Raises:
        ValueError: It is empty, too long, or holds white space or what cannot be printed.
    """
    if not 1 <= len(subject) <= MAX_SUBJECT or not subject.isprintable() or any(map(str.isspace, subject)):
        raise ValueError(
            f"{subject[:64]!a} is not a subject; give 1 to {MAX_SUBJECT} characters that can be printed, without spaces"
        )


def parse_tokens(content: bytes) -> Mapping[str, str]:
    """What a tokens file says: subjects by the hash of their token.

    Raises:
        ValueError: With the line's number, and nothing of the line: someone may have written a token there.
    """
    found: dict[str, str] = {}
    for number, line in enumerate(_text(content).splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        parts = _LINE.fullmatch(text)
        if parts is None:
            raise ValueError(
                f"line {number} is not 'sha256:<64 lower-case hex> subject'; make one with: context-broker token new"
            )
        digest, subject = parts.groups()
        try:
            check_subject(subject)
        except ValueError as wrong:
            raise ValueError(f"line {number}: {wrong}") from None
        if found.setdefault(digest, subject) != subject:
            raise ValueError(f"line {number}: its hash stands on an earlier line for another subject")
    return found


class Tokens:
    """Knows a caller by its bearer token."""

    def __init__(self, file: WatchedFile[Mapping[str, str]]) -> None:
        self._file = file

    def identify(self, presented: Presented, now: float, /) -> Identified:  # noqa: ARG002 - these do not expire
        """See :class:`~broker.auth.parts.Part`."""
        token = presented.bearer()
        if len(token) < MIN_TOKEN:
            raise Refused("token too short")
        subject = self._file.value.get(_hash(token))
        if subject is None:
            raise Refused("token unknown")
        return Identified(subject, frozenset({Kind.TOKENS}))


def _hash(token: str) -> str:
    return sha256(token.encode()).hexdigest()


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as wrong:
        raise ValueError(f"not UTF-8 at byte {wrong.start}") from None
