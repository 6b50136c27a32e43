"""Principals: what a subject may be and whose it is. A subject without one is no one.

The file is TOML, a table for each principal::

    [[principals]]
    subject = "spiffe://example.org/search"   # as the credential says it, whole
    by = ["mtls"]                             # the kinds of credential that may say it
    tenant = "research"                       # left out in all: the one without a name
    role = "provider"                         # or "orchestrator", or "operator"
    providers = ["search", "files"]           # the names that it may speak for; providers only

``by`` is there because subjects of different kinds share one space: an issuer of tokens that may name any subject must
not be able to name one that only a certificate was meant to. It may be left out where the policy knows one kind only.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from broker.auth.caller import Role
from broker.auth.parts import Kind
from broker.auth.tokens import check_subject
from broker.core.names import provider_name_problem

_TENANT = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
T = TypeVar("T")

_TOLD = 20
"""Mistakes that are told at once."""

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
        ValueError: With the entry, the key, and what was expected, a line for each that is wrong.
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
    told: list[str] = []
    for number, entry in enumerate(entries):
        problems: list[str] = []
        principal = _principal(entry, kinds, problems)
        told += (f"principals[{number}]: {each}" for each in problems)
        if principal is None:
            continue
        if principal.subject in found:
            told.append(f"principals[{number}]: the subject {principal.subject!a} stands there twice")
        found[principal.subject] = principal
    told = told or list(_without_tenant(found.values()))
    if told:
        more = [f"and {len(told) - _TOLD} more"] if len(told) > _TOLD else []
        raise ValueError("\n".join((*told[:_TOLD], *more)))
    return found


def _without_tenant(principals: Collection[Principal]) -> Iterator[str]:
    """Those whose tenant was forgotten: where others have one, the tenant without a name is meant by no one."""
    members = [each for each in principals if each.role is not Role.OPERATOR]
    if any(each.tenant for each in members):
        for each in members:
            if not each.tenant:
                yield f"tenant: the principal {each.subject!a} has none, and others have; give every one its tenant"


def _principal(entry: dict[str, Any], kinds: frozenset[Kind], problems: list[str]) -> Principal | None:
    """What an entry says; None where anything is wrong with it, and all of that is added to ``problems``."""

    def part(read: Callable[..., T], *arguments: Any) -> T | None:
        try:
            return read(entry, *arguments)
        except ValueError as wrong:
            problems.append(str(wrong))
            return None

    unknown = sorted(entry.keys() - _KEYS)
    if unknown:
        problems.append(f"there is no key {unknown[0]!a}; there are {', '.join(sorted(_KEYS))}")
    subject, tenant, role = part(_subject), part(_tenant), part(_role)
    providers, by = part(_providers), part(_kinds, kinds)
    if role is not None and providers is not None and (role is Role.PROVIDER) != bool(providers):
        problems.append("providers: a provider needs the names that it may speak for, and no other role has any")
    if problems or subject is None or tenant is None or role is None or providers is None or by is None:
        return None
    return Principal(subject, by, tenant, role, providers)


def _subject(entry: dict[str, Any]) -> str:
    subject = _string(entry, "subject")
    check_subject(subject)
    return subject


def _tenant(entry: dict[str, Any]) -> str:
    tenant = _string(entry, "tenant", "")
    if tenant and _TENANT.fullmatch(tenant) is None:
        raise ValueError(f"tenant {tenant[:64]!a}: use 1 to 63 of a-z, 0-9, '.', '_' and '-'")
    return tenant


def _role(entry: dict[str, Any]) -> Role:
    named = _string(entry, "role")
    try:
        return Role(named)
    except ValueError:
        raise ValueError(f"role: give one of {', '.join(each.value for each in Role)}") from None


def _providers(entry: dict[str, Any]) -> frozenset[str]:
    providers = _strings(entry, "providers")
    for name in providers:
        if problem := provider_name_problem(name):
            raise ValueError(f"providers: {problem}")
    return frozenset(providers)


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
