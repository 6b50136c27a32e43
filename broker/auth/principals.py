"""Principals: what a subject may be and whose it is. A subject without one is no one.

The file is TOML, a table for each principal::

    [[principals]]
    subject = "spiffe://example.org/search"   # as the credential says it, whole
    by = ["mtls"]                             # the kinds of credential that may say it
    tenant = "research"                       # left out: the one without a name
    role = "provider"                         # or "orchestrator", or "operator"
    providers = ["search", "files"]           # the names that it may speak for; providers only

``by`` is there because subjects of different kinds share one space: an issuer of tokens that may name any subject must
not be able to name one that only a certificate was meant to. It may be left out where the policy knows one kind only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.auth.caller import Role
from broker.auth.parts import Kind
from broker.auth.tokens import check_subject
from broker.core.names import provider_name_problem

_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_KEYS = frozenset({"subject", "by", "tenant", "role", "providers"})


@dataclass(frozen=True, slots=True)
class Principal:
    """What a subject may be.

    Attributes:
        subject: Its name, as the credential says it.
        by: The kinds of credential that may say so.
        tenant: Whose it is; empty: the tenant without a name.
        role: What it may be.
        providers: The names that it may speak for; empty but for a provider.
    """

    subject: str
    by: frozenset[Kind]
    tenant: str
    role: Role
    providers: frozenset[str]


def parse_principals(content: bytes, kinds: frozenset[Kind]) -> Mapping[str, Principal]:
    """What a file of principals says, by subject.

    Args:
        content: The file.
        kinds: The kinds of credential that the policy knows.

    Raises:
        ValueError: With the entry, the key, and what was expected.
    """
    try:
        document = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as wrong:
        raise ValueError(f"not TOML: {wrong}") from None
    entries = document.pop("principals", [])
    if document:
        raise ValueError(f"there is no key {next(iter(document))!a}; there are tables [[principals]] alone")
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("principals are tables: write [[principals]] before each")
    found: dict[str, Principal] = {}
    for number, entry in enumerate(entries):
        try:
            principal = _principal(entry, kinds)
        except ValueError as wrong:
            raise ValueError(f"principals[{number}]: {wrong}") from None
        if principal.subject in found:
            raise ValueError(f"principals[{number}]: the subject {principal.subject!a} stands there twice")
        found[principal.subject] = principal
    return found


def _principal(entry: dict[str, Any], kinds: frozenset[Kind]) -> Principal:
    unknown = sorted(entry.keys() - _KEYS)
    if unknown:
        raise ValueError(f"there is no key {unknown[0]!a}; there are {', '.join(sorted(_KEYS))}")
    subject, tenant = _string(entry, "subject"), _string(entry, "tenant", "")
    check_subject(subject)
    if tenant and _TENANT.fullmatch(tenant) is None:
        raise ValueError(f"tenant {tenant[:64]!a}: use 1 to 63 of a-z, 0-9, '.', '_' and '-'")
    named = _string(entry, "role")
    try:
        role = Role(named)
    except ValueError:
        raise ValueError(f"role: give one of {', '.join(each.value for each in Role)}") from None
    providers = _strings(entry, "providers")
    for name in providers:
        if problem := provider_name_problem(name):
            raise ValueError(f"providers: {problem}")
    if (role is Role.PROVIDER) != bool(providers):
        raise ValueError("providers: a provider needs the names that it may speak for, and no other role has any")
    return Principal(subject, _kinds(entry, kinds), tenant, role, frozenset(providers))


def _kinds(entry: dict[str, Any], kinds: frozenset[Kind]) -> frozenset[Kind]:
    known = ", ".join(sorted(kind.value for kind in kinds))
    if "by" not in entry:
        if len(kinds) > 1:
            raise ValueError(f"by: auth.policy knows {known}; say which of them may name this subject")
        return kinds
    try:
        by = frozenset(map(Kind, _strings(entry, "by")))
    except ValueError:
        by = frozenset()
    if not by or not by <= kinds:
        raise ValueError(f"by: give at least one of what auth.policy knows: {known}")
    return by


def _string(entry: dict[str, Any], key: str, default: str | None = None) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key}: {'expected a text' if key in entry else 'is missing'}")  # noqa: TRY004
    return value


def _strings(entry: dict[str, Any], key: str) -> list[str]:
    value = entry.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key}: expected a list of texts")
    return value
