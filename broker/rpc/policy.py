"""From the configuration to who may call: the parts, their files, and what is said aloud of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import structlog

from broker.auth.authenticator import Authenticator
from broker.auth.certificates import Certificates
from broker.auth.files import WatchedFile
from broker.auth.parts import AllOf, Anonymous, AnyOf, Deny, Kind, Part
from broker.auth.principals import parse_principals
from broker.auth.signed import ALGORITHMS, SignedTokens, parse_keys
from broker.auth.tokens import Tokens, parse_tokens
from broker.errors import ConfigError
from broker.settings import Auth, Config

log = structlog.get_logger("broker.rpc")


def authenticator_of(config: Config) -> Authenticator:
    """Who may call, by the configuration. Where that is everyone, the log says so loudly.

    Raises:
        ConfigError: A file of the policy's cannot be used, or an algorithm cannot be listed.
    """
    auth, server = config.auth, config.server
    kinds = frozenset(Kind(part) for part in auth.parts if part in {kind.value for kind in Kind})
    files: list[WatchedFile[Any]] = []
    part = _part("anonymous" if auth.policy is None else auth.policy, auth, files)
    principals = None
    if auth.principals_file is not None:
        principals = WatchedFile(auth.principals_file, "auth.principals_file", partial(parse_principals, kinds=kinds))
        files.append(principals)
    if auth.policy is None or auth.parts == {"anonymous"}:
        log.warning(
            "NO AUTHENTICATION: whoever can connect may do everything; set auth.policy to know callers",
            listen=server.listen,
        )
    elif "anonymous" in auth.parts:
        log.warning("callers without a credential are let in as anonymous providers and orchestrators")
    if kinds & {Kind.TOKENS, Kind.JWT} and server.tls_cert is None and not server.loopback:
        log.warning("bearer tokens cross the network in plain text; set server.tls_cert, unless a proxy adds TLS")
    # Over a network no one becomes operator by saying nothing.
    operates = server.loopback and (auth.policy is None or auth.policy == "anonymous")
    required = {
        name: frozenset(map(Kind, known.credentials)) for name, known in config.providers.items() if known.credentials
    }
    return Authenticator(part, principals, files, kinds=kinds, anonymous_operates=operates, required=required)


def _part(policy: Any, auth: Auth, files: list[WatchedFile[Any]]) -> Part:
    """The part that a policy stands for; what it reads is added to ``files``."""
    if not isinstance(policy, str):
        ((how, inner),) = policy.items()
        parts = [_part(each, auth, files) for each in inner]
        return AnyOf(parts) if how == "any" else AllOf(parts)
    if policy == "tokens" and auth.tokens_file is not None:
        tokens = WatchedFile(auth.tokens_file, "auth.tokens_file", parse_tokens)
        files.append(tokens)
        return Tokens(tokens)
    if policy == "jwt" and auth.jwt is not None:
        unknown = sorted(set(auth.jwt.algorithms) - ALGORITHMS.keys())
        if unknown:
            raise ConfigError(f"auth.jwt.algorithms: {unknown[0]!a} cannot be taken; there are {', '.join(ALGORITHMS)}")
        keys = WatchedFile(auth.jwt.jwks_file, "auth.jwt.jwks_file", parse_keys)
        files.append(keys)
        return SignedTokens(
            keys,
            issuer=auth.jwt.issuer,
            audience=auth.jwt.audience,
            algorithms=auth.jwt.algorithms,
            leeway=auth.jwt.leeway_seconds,
        )
    if policy == "mtls":
        return Certificates()
    if policy == "anonymous":
        return Anonymous()
    return Deny()
