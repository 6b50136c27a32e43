"""The parts that a policy is made of: each tells who a caller is by one kind of credential, or refuses to.

Parts combine (bb-storage's ``pkg/auth``): ``any`` takes the first part that identifies the caller, ``all`` wants every
part to name the same subject, so that with ``all = ["mtls", "tokens"]`` a stolen token is worth nothing without the
key that belongs to it. What no part identifies is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from hashlib import sha256
from typing import Protocol

from msgspec import Struct

MAX_BEARER = 8 * 1024
"""Characters of an ``authorization`` value; longer ones are not looked at."""

_BEARER = re.compile(r"bearer ([A-Za-z0-9._~+/-]+=*)", re.IGNORECASE | re.ASCII)


class Kind(Enum):
    """The kinds of credential."""

    MTLS = "mtls"
    """The client's certificate."""
    TOKENS = "tokens"
    """A bearer token whose hash the operator keeps."""
    JWT = "jwt"
    """A bearer token that an issuer signed."""


class Refused(Exception):
    """A part does not know the caller; the text is for the broker's log and for no one else."""


class Presented(Struct, frozen=True, gc=False):
    """What a call brought to show who makes it.

    Attributes:
        connection: What names the connection while that lasts.
        authorization: The values of its ``authorization`` metadata.
        certificate: The client's own certificate in PEM, which TLS has verified; empty: none.
    """

    connection: str
    authorization: tuple[str, ...] = ()
    certificate: bytes = b""

    def __repr__(self) -> str:
        return f"Presented({self.connection!r}, {self.fingerprint!r})"

    @property
    def nothing(self) -> bool:
        """Whether it brought no credential at all."""
        return not self.authorization and not self.certificate

    @property
    def fingerprint(self) -> str:
        """What the log says of the credential: the first characters of its hash; empty where there is none."""
        if self.authorization:
            text = "\n".join(self.authorization)
            return sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]
        return sha256(self.certificate).hexdigest()[:8] if self.certificate else ""

    def bearer(self) -> str:
        """The bearer token.

        Raises:
            Refused: There is none, more than one, or something else in its place.
        """
        if not self.authorization:
            raise Refused("no authorization")
        if len(self.authorization) > 1:
            raise Refused("more than one authorization")
        (value,) = self.authorization
        if len(value) > MAX_BEARER:
            raise Refused("authorization too long")
        found = _BEARER.fullmatch(value)
        if found is None:
            raise Refused("authorization is not one bearer token")
        return found[1]


class Identified(Struct, frozen=True, gc=False):
    """Who a caller is.

    Attributes:
        subject: Its name; empty: anonymous.
        by: The kinds of credential that say so; empty: anonymous.
        expires: When the first of them ends, in seconds since the epoch; None: none does.
    """

    subject: str
    by: frozenset[Kind]
    expires: float | None = None


_NO_ONE = Identified("", frozenset())


class Part(Protocol):
    """One way to know a caller."""

    def identify(self, presented: Presented, now: float, /) -> Identified:
        """Who the caller is.

        Args:
            presented: What it brought.
            now: Seconds since the epoch.

        Raises:
            Refused: This part does not know it.
        """


class AnyOf:
    """The first part that identifies the caller, in the order given."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)

    def identify(self, presented: Presented, now: float, /) -> Identified:
        """See :class:`Part`."""
        reasons = []
        for part in self._parts:
            try:
                return part.identify(presented, now)
            except Refused as refused:
                reasons.append(str(refused))
        raise Refused("; ".join(reasons))


class AllOf:
    """Every part, of one subject."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)

    def identify(self, presented: Presented, now: float, /) -> Identified:
        """See :class:`Part`."""
        found = [part.identify(presented, now) for part in self._parts]
        if len({each.subject for each in found}) != 1:
            raise Refused("the credentials name different subjects")
        ends = [each.expires for each in found if each.expires is not None]
        by = frozenset[Kind]().union(*(each.by for each in found))
        return Identified(found[0].subject, by, min(ends, default=None))


class Deny:
    """Refuses everyone."""

    def identify(self, presented: Presented, now: float, /) -> Identified:  # noqa: ARG002
        """See :class:`Part`."""
        raise Refused("denied")


class Anonymous:
    """Takes whoever brings no credential. One who brings a wrong one is not taken for no one."""

    def identify(self, presented: Presented, now: float, /) -> Identified:  # noqa: ARG002
        """See :class:`Part`."""
        if not presented.nothing:
            raise Refused("a credential that no other part takes")
        return _NO_ONE
