"""How a client proves who it is, and knows whom it talks to: certificates, and a bearer token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc

from broker.addresses import is_loopback
from broker.errors import BrokerError, FieldViolation, InvalidArgument, Unavailable
from broker.wire.typed import require

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
"""What a bearer token is made of (RFC 6750)."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a client brings to a broker.

    Attributes:
        tls_ca: File of the certificates, in PEM, that the broker's own must descend from; None: plain text.
        tls_cert: File of this client's own certificate chain, in PEM, where the broker asks for one.
        tls_key: File of its key.
        token: A bearer token.
        token_file: File of a bearer token, read for each call, so that it can be renewed.
    """

    tls_ca: str | Path | None = None
    tls_cert: str | Path | None = None
    tls_key: str | Path | None = None
    token: str | None = None
    token_file: str | Path | None = None

    def __repr__(self) -> str:
        return f"Access(tls_ca={self.tls_ca!r}, tls_cert={self.tls_cert!r})"

    def check(self, address: str) -> None:
        """Refuses what cannot be used, before anything is connected. Certificates are read later.

        Args:
            address: Where it is to be used.

        Raises:
            InvalidArgument: A value of another type (``FIELD_INVALID``); certificates that do not go together
                (``TLS_CERT``); two tokens, or one that is none or would cross a network in plain text (``TOKEN``); a
                token's file that cannot be read (``TOKEN_FILE``).
        """
        path = str | Path | None
        require(
            ("tls_ca", self.tls_ca, path),
            ("tls_cert", self.tls_cert, path),
            ("tls_key", self.tls_key, path),
            ("token", self.token, str | None),
            ("token_file", self.token_file, path),
        )
        if (self.tls_cert is None) != (self.tls_key is None):
            given = "tls_cert" if self.tls_key is None else "tls_key"
            raise _wrong(given, "TLS_CERT", "tls_cert and tls_key go together; give both or neither")
        if self.tls_cert is not None and self.tls_ca is None:
            raise _wrong("tls_cert", "TLS_CERT", "a certificate is shown over TLS alone; give tls_ca too")
        if self.token is not None and self.token_file is not None:
            raise _wrong("token", "TOKEN", "token and token_file are two ways to give one token; give one of them")
        given = "token" if self.token_file is None else "token_file"
        if (self.token, self.token_file) != (None, None) and self.tls_ca is None and not is_loopback(address):
            text = f"to {address} the token would go in plain text, for anyone on the way to take; give tls_ca"
            raise _wrong(given, "TOKEN", text)
        try:
            self.metadata()
        except Unavailable as error:
            raise _wrong("token_file", "TOKEN_FILE", error.message) from None

    def metadata(self) -> Sequence[tuple[str, str]]:
        """What each call carries.

        Raises:
            InvalidArgument: What was given is no token (``TOKEN``).
            Unavailable: The token's file cannot be read now, or holds none (``TOKEN_FILE``).
        """
        token = self.token
        if token is not None and _TOKEN.fullmatch(token) is None:
            raise _wrong("token", "TOKEN", "that is no bearer token: give letters, digits and -._~+/= alone")
        if self.token_file is not None:
            token = _read_token(self.token_file)
        return () if token is None else (("authorization", f"Bearer {token}"),)

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """What TLS needs; None where it is off.

        Raises:
            InvalidArgument: A file cannot be read (``TLS_CA``, ``TLS_CERT``).
        """
        if self.tls_ca is None:
            return None
        roots = _read("tls_ca", "TLS_CA", self.tls_ca)
        if self.tls_cert is None or self.tls_key is None:
            return grpc.ssl_channel_credentials(roots)
        chain, key = _read("tls_cert", "TLS_CERT", self.tls_cert), _read("tls_key", "TLS_CERT", self.tls_key)
        return grpc.ssl_channel_credentials(roots, key, chain)


def _read_token(file: str | Path) -> str:
    try:
        text = Path(file).read_bytes()[:65_536].decode("ascii").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise Unavailable("TOKEN_FILE", f"{file} cannot be read as a token: {why}") from None
    if _TOKEN.fullmatch(text) is None:
        raise Unavailable("TOKEN_FILE", f"{file} does not hold one bearer token and nothing else")
    return text


def _read(field: str, reason: str, file: str | Path) -> bytes:
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        raise _wrong(field, reason, f"the certificates cannot be read: {error}") from None


def _wrong(field: str, reason: str, text: str) -> BrokerError:
    return InvalidArgument.of([FieldViolation(field, reason, text)])
