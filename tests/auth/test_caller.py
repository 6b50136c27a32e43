"""A caller is made of its credential; one without any is everyone's equal, and operates only where it is let."""

from __future__ import annotations

import pytest

from broker.auth.caller import Caller, Role, anonymous


def test_an_anonymous_caller_speaks_for_any_provider_of_the_one_tenant() -> None:
    caller = anonymous("c", operates=False)
    assert (caller.tenant, caller.subject, caller.connection) == ("", "", "c")
    assert "whatever" in caller.providers
    but_one = anonymous("c", operates=False, refused=frozenset({"a"}))
    assert ("a" in but_one.providers, "b" in but_one.providers) == (False, True)


def test_it_operates_only_where_it_is_let() -> None:
    assert anonymous("c", operates=False).roles == {Role.PROVIDER, Role.ORCHESTRATOR}
    assert anonymous("c", operates=True).roles == set(Role)


def test_nothing_changes_a_caller() -> None:
    caller = Caller("red", "me", frozenset({Role.PROVIDER}), frozenset({"a"}), "c")
    with pytest.raises(AttributeError):
        caller.tenant = "blue"  # type: ignore[misc]


def test_the_log_names_those_who_are_known() -> None:
    assert Caller("red", "me", frozenset(), (), "c").logged == {"tenant": "red", "subject": "me"}
    assert anonymous("c", operates=True).logged == {}
