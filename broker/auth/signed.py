"""Signed bearer tokens (JWT, RFC 7519; best practices of RFC 8725), with keys of a local file.

Nothing that a token says of its own keys is followed: ``kid`` only picks one of the operator's, and ``jku``, ``x5u``,
``jwk`` and the like are not read. A key is used for the algorithms of its own kind alone, and only with those that the
operator lists, of which none is symmetric. A token must say who issued it, for whom, about whom, and until when.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jwt

from broker.auth.files import WatchedFile
from broker.auth.parts import Identified, Kind, Presented, Refused
from broker.auth.tokens import check_subject

ALGORITHMS: Mapping[str, tuple[str, str]] = {
    "RS256": ("RSA", ""),
    "RS384": ("RSA", ""),
    "RS512": ("RSA", ""),
    "PS256": ("RSA", ""),
    "PS384": ("RSA", ""),
    "PS512": ("RSA", ""),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""Algorithms that can be listed, with the ``kty`` and the ``crv`` of their keys. All are asymmetric."""

MIN_RSA_BITS = 2048

_CLAIMS = ("iss", "aud", "sub", "exp")

Keys = tuple[tuple[Mapping[str, Any], Any], ...]
"""Keys, each with what the file says of it."""


def parse_keys(content: bytes) -> Keys:
    """The keys of a JWKS file (RFC 7517).

    Raises:
        ValueError: With the key's place, and what is wrong.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise ValueError('not a JWKS: expected a JSON object {"keys": [...]}')  # noqa: TRY004
    found = [(entry, _key(number, entry)) for number, entry in enumerate(entries)]
    names = [entry.get("kid") for entry, _ in found]
    if len(found) > 1 and (None in names or len(set(names)) != len(names)):
        raise ValueError("keys: where there are several, each needs a kid of its own")
    return tuple(found)


def _key(number: int, entry: Any) -> Any:
    where = f"keys[{number}]"
    if not isinstance(entry, dict) or not isinstance(entry.get("kid", ""), str):
        raise ValueError(f"{where} is not a key")  # noqa: TRY004
    if {"d", "k"} & entry.keys():
        raise ValueError(f"{where} holds a secret; give the public part of an asymmetric key")
    if entry.get("use", "sig") != "sig":
        raise ValueError(f"{where}: use is {entry['use']!a}, and only keys that sign are of use")
    kind = (entry.get("kty"), entry.get("crv", ""))
    fitting = [name for name, known in ALGORITHMS.items() if known == kind]
    if entry.get("alg", *fitting[:1]) not in fitting:
        raise ValueError(f"{where}: kty, crv and alg fit none of {', '.join(ALGORITHMS)}")
    try:
        key = jwt.PyJWK(entry, algorithm=fitting[0]).key
    except Exception:  # noqa: BLE001 - PyJWT and cryptography raise many kinds for what is no key
        raise ValueError(f"{where} cannot be used as a key") from None
    if getattr(key, "key_size", MIN_RSA_BITS) < MIN_RSA_BITS and entry["kty"] == "RSA":
        raise ValueError(f"{where} has {key.key_size} bits, and an RSA key has at least {MIN_RSA_BITS}")
    return key


class SignedTokens:
    """Knows a caller by a token that an issuer signed."""

    def __init__(
        self, file: WatchedFile[Keys], *, issuer: str, audience: str, algorithms: tuple[str, ...], leeway: float
    ) -> None:
        """Takes tokens of one issuer for one audience.

        Args:
            file: The issuer's keys.
            issuer: What ``iss`` must be.
            audience: What ``aud`` must be or hold.
            algorithms: Names of :data:`ALGORITHMS`.
            leeway: Seconds that the issuer's clock and this one may differ.
        """
        self._file = file
        self._issuer = issuer
        self._audience = audience
        self._algorithms = algorithms
        self._leeway = leeway

    def identify(self, presented: Presented, now: float, /) -> Identified:
        """See :class:`~broker.auth.parts.Part`."""
        token = presented.bearer()
        try:
            claims = self._claims(token)
        except jwt.PyJWTError as wrong:
            # The kind alone: the text may hold parts of the token.
            raise Refused(f"signed token: {type(wrong).__name__}") from None
        except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as wrong:
            raise Refused(f"signed token is malformed: {type(wrong).__name__}") from None
        return self._judged(claims, now)

    def _claims(self, token: str) -> Mapping[str, Any]:
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in self._algorithms:
            raise Refused("signed token: algorithm is not allowed")
        claims: Mapping[str, Any] = jwt.decode(
            token,
            self._key(algorithm, header.get("kid")),
            algorithms=[algorithm],
            audience=self._audience,
            issuer=self._issuer,
            # Times are judged here, by the clock that was passed in.
            options={"require": list(_CLAIMS), "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
        return claims

    def _key(self, algorithm: str, kid: object) -> Any:
        kty, crv = ALGORITHMS[algorithm]
        for entry, key in self._file.value:
            if kid is not None and entry.get("kid") != kid:
                continue
            if kid is None and len(self._file.value) > 1:
                continue
            if entry["kty"] == kty and entry.get("crv", "") == crv and entry.get("alg", algorithm) == algorithm:
                return key
        raise Refused("signed token: no key for it")

    def _judged(self, claims: Mapping[str, Any], now: float) -> Identified:
        subject, ends = claims["sub"], _moment(claims, "exp")
        begins = _moment(claims, "nbf") if "nbf" in claims else now
        if now >= ends + self._leeway:
            raise Refused("signed token: expired")
        if now < begins - self._leeway:
            raise Refused("signed token: not valid yet")
        try:
            check_subject(subject)
        except (ValueError, TypeError):
            raise Refused("signed token: its subject is none") from None
        return Identified(subject, frozenset({Kind.JWT}), ends + self._leeway)


def _moment(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**40:
        raise Refused(f"signed token: {name} is no time")
    return float(value)
