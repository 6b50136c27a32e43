"""Promise: no one but an operator reaches another tenant, and an operator always knows whose things it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.auth.caller import Caller, Role
from broker.auth.tenants import tenant_of
from broker.errors import InvalidArgument, NotFound, PermissionDenied

NAMES = st.sampled_from(["", "blue", "red", "green"])


def caller(tenant: str, *roles: Role) -> Caller:
    return Caller(tenant, "me", frozenset(roles), (), "c")


@given(NAMES, NAMES, st.sets(st.sampled_from([Role.PROVIDER, Role.ORCHESTRATOR])), st.sets(NAMES))
def test_whoever_is_no_operator_has_its_own_tenant_or_nothing(
    own: str, asked: str, roles: set[Role], known: set[str]
) -> None:
    if asked in ("", own):
        assert tenant_of(caller(own, *roles), asked, lambda: known) == own
    else:
        with pytest.raises(PermissionDenied) as refused:
            tenant_of(caller(own, *roles), asked, lambda: known)
        assert refused.value.reason == "TENANT"
        assert "green" not in refused.value.message


@given(NAMES, NAMES)
def test_an_operator_has_the_tenant_that_it_names_or_else_its_own(own: str, asked: str) -> None:
    known = {"blue", "red"}
    operator = caller(own, Role.OPERATOR)
    if not (asked or own):
        with pytest.raises(InvalidArgument, match="name the one that is meant: blue, red") as refused:
            tenant_of(operator, asked, lambda: known)
        assert [(each.field, each.reason) for each in refused.value.violations] == [("tenant", "TENANT")]
    elif asked not in ("", own) and asked not in known:
        with pytest.raises(NotFound, match="there are blue, red") as unknown:
            tenant_of(operator, asked, lambda: known)
        assert unknown.value.reason == "TENANT_UNKNOWN"
    else:
        assert tenant_of(operator, asked, lambda: known) == (asked or own)


def test_where_there_are_no_tenants_an_operator_names_none() -> None:
    assert tenant_of(caller("", Role.OPERATOR), "", lambda: ()) == ""
    with pytest.raises(NotFound, match="there are none"):
        tenant_of(caller("", Role.OPERATOR), "blue", lambda: ())


def test_of_many_tenants_an_error_names_a_few() -> None:
    known = [f"t{number:04}" for number in range(1000)]
    with pytest.raises(InvalidArgument) as refused:
        tenant_of(caller("", Role.OPERATOR), "", lambda: known)
    assert "t0019, …" in refused.value.violations[0].message
