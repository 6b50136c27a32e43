"""Who makes a call. It is made from the credential alone: nothing that a message says changes it."""

from __future__ import annotations

from collections.abc import Container
from enum import Enum

from msgspec import Struct


class Role(Enum):
    """What a caller is to the broker; what each may call stands in :mod:`broker.auth.methods`."""

    PROVIDER = "provider"
    """Attaches and pushes, under the names that it is allowed."""
    ORCHESTRATOR = "orchestrator"
    """Asks."""
    OPERATOR = "operator"
    """Runs the broker: acts on the providers of every tenant."""


_EVERY_ROLE = frozenset(Role)
_ALL_BUT_OPERATOR = _EVERY_ROLE - {Role.OPERATOR}


class EveryName(Struct, frozen=True, gc=False):
    """Every name there is, but for some: those of an anonymous caller. No credential gives it.

    Attributes:
        refused: The names that it does not hold.
    """

    refused: frozenset[str] = frozenset()

    def __contains__(self, name: object) -> bool:
        return name not in self.refused


class Caller(Struct, frozen=True, gc=False):
    """One caller.

    Attributes:
        tenant: Whose providers, requests, pushes and compositions it sees and makes, and whose quotas count its calls;
            empty where there are no tenants.
        subject: Its name, from its credential; empty: anonymous.
        roles: What it may be; empty: nothing.
        providers: The provider names that it may speak for.
        connection: What names its connection while that lasts, such as ``ipv4:127.0.0.1:40404``.
    """

    tenant: str
    subject: str
    roles: frozenset[Role]
    providers: Container[str]
    connection: str

    @property
    def logged(self) -> dict[str, str]:
        """What the log says of who calls; nothing where callers are not known."""
        return {"tenant": self.tenant, "subject": self.subject} if self.subject else {}


def anonymous(connection: str, *, operates: bool, refused: frozenset[str] = frozenset()) -> Caller:
    """Whoever calls a broker that asks for no credential: any provider, any orchestrator, of the one tenant.

    Args:
        connection: As in :class:`Caller`.
        operates: Whether it may also act as operator.
        refused: Providers that it may not speak for.
    """
    return Caller("", "", _EVERY_ROLE if operates else _ALL_BUT_OPERATOR, EveryName(refused), connection)
