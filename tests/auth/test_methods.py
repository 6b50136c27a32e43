"""Every method that is served has its roles, and one that has none is denied to all."""

from __future__ import annotations

import pytest
from contextbroker.v1 import context_service_pb2, operator_service_pb2, provider_service_pb2

from broker.auth.caller import Caller, Role, anonymous
from broker.auth.methods import OPEN, ROLES, may_call, needed

CONTRACT = [
    (descriptor.name, method.name)
    for module, name in (
        (context_service_pb2, "ContextService"),
        (provider_service_pb2, "ProviderService"),
        (operator_service_pb2, "OperatorService"),
    )
    for descriptor in [module.DESCRIPTOR.services_by_name[name]]
    for method in descriptor.methods
]


def caller(*roles: Role) -> Caller:
    return Caller("", "someone", frozenset(roles), (), "c")


@pytest.mark.parametrize(("service", "method"), CONTRACT)
def test_every_method_of_the_contract_has_roles(service: str, method: str) -> None:
    assert ROLES[method]
    only = {"ProviderService": {Role.PROVIDER}, "OperatorService": {Role.OPERATOR}}
    if service in only:
        assert ROLES[method] == only[service]
    else:
        assert Role.PROVIDER not in ROLES[method]


def test_who_asks_is_an_orchestrator_and_no_one_else() -> None:
    assert [role for role in Role if may_call(caller(role), "Compose")] == [Role.ORCHESTRATOR]


@pytest.mark.parametrize("method", ["", "compose", "/contextbroker.v1.ContextService/Compose", "Compose ", "NoSuch"])
def test_what_is_not_named_is_denied_to_all(method: str) -> None:
    assert not may_call(caller(*Role), method)
    assert not may_call(anonymous("c", operates=True), method)


def test_who_is_nothing_may_call_nothing() -> None:
    assert not any(may_call(caller(), method) for method in ROLES)


def test_health_alone_is_open() -> None:
    assert {method.partition(".")[0] for method in OPEN} == {"Health"}
    assert not OPEN & ROLES.keys()


@pytest.mark.parametrize("method", ROLES)
def test_what_a_method_needs_is_told_in_words(method: str) -> None:
    assert {role for role in Role if repr(role.value) in needed(method)} == ROLES[method]


def test_what_no_one_may_call_needs_what_no_one_has() -> None:
    assert needed("NoSuch") == "a role that no one has"
