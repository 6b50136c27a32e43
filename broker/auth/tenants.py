"""Whose things a call is about: the caller's own tenant's, or those of the tenant that an operator names."""

from __future__ import annotations

from collections.abc import Callable, Collection

from broker.auth.caller import Caller, Role
from broker.errors import FieldViolation, InvalidArgument, NotFound, PermissionDenied

_SHOWN = 20
"""Tenants that an error names."""


def tenant_of(caller: Caller, asked: str, known: Callable[[], Collection[str]]) -> str:
    """The tenant that a call is about.

    Args:
        caller: Who calls.
        asked: The tenant that its message names; empty: none.
        known: Gives the names of all tenants.

    Raises:
        PermissionDenied: It names another tenant than its own and is no operator (``TENANT``), whether there is one or
            not.
        InvalidArgument: An operator without a tenant of its own names none, where there are some (``TENANT``).
        NotFound: An operator names one that there is not (``TENANT_UNKNOWN``).
    """
    operates = Role.OPERATOR in caller.roles
    if asked == caller.tenant or not asked:
        if operates and not caller.tenant and (tenants := known()):
            text = f"this credential has no tenant of its own; name the one that is meant: {_told(tenants)}"
            raise InvalidArgument.of([FieldViolation("tenant", "TENANT", text)])
        return caller.tenant
    if not operates:
        raise PermissionDenied("TENANT", "this credential may not name a tenant other than its own; name none")
    tenants = known()
    if asked not in tenants:
        there = f"there are {_told(tenants)}" if tenants else "there are none; name none"
        raise NotFound("TENANT_UNKNOWN", f"there is no tenant {asked!a}; {there}")
    return asked


def _told(tenants: Collection[str]) -> str:
    names = sorted(tenants)
    more = ["…"] if len(names) > _SHOWN else []
    return ", ".join((*names[:_SHOWN], *more))
