"""What every method asks of its caller, in one place. A method that is not named here is denied to all."""

from __future__ import annotations

from collections.abc import Mapping

from broker.auth.caller import Caller, Role

_ANY = frozenset(Role)
_ASKS = frozenset({Role.ORCHESTRATOR})
_LOOKS = frozenset({Role.ORCHESTRATOR, Role.OPERATOR})
_ANSWERS = frozenset({Role.PROVIDER})
_OPERATES = frozenset({Role.OPERATOR})

ROLES: Mapping[str, frozenset[Role]] = {
    "Compose": _ASKS,
    "ListProviders": _LOOKS,
    "ListStrategies": _LOOKS,
    "GetComposition": _LOOKS,
    "ListCompositions": _LOOKS,
    "ReportAttribution": _ASKS,
    "GetProviderStatistics": _LOOKS,
    "Attach": _ANSWERS,
    "Push": _ANSWERS,
    "QuarantineProvider": _OPERATES,
    "ReleaseProvider": _OPERATES,
    "DrainBroker": _OPERATES,
    "Reflection": _ANY,
}
"""Roles of which a caller needs one, by the name under which a method's handler was registered. (Never by the path that
a client sent: what is judged is what will run.)"""

OPEN = frozenset({"Health.Check", "Health.List", "Health.Watch"})
"""Methods that need no credential: they tell whether the broker serves, and nothing else."""


def may_call(caller: Caller, method: str) -> bool:
    """Whether a caller may call a method, by its roles."""
    return not caller.roles.isdisjoint(ROLES.get(method, frozenset()))


def needed(method: str) -> str:
    """What a caller needs to call a method, as words of a refusal; the table is public, and no secret."""
    roles = [repr(role.value) for role in Role if role in ROLES.get(method, frozenset())]
    return f"the role {' or '.join(roles)}" if roles else "a role that no one has"
