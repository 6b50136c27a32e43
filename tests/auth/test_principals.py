"""A principal says all that its subject may be; what is left open or misspelt is refused, and allows nothing."""

from __future__ import annotations

import pytest

from broker.auth.caller import Role
from broker.auth.parts import Kind
from broker.auth.principals import Principal, parse_principals

ONE = frozenset({Kind.MTLS})
GOOD = {"subject": '"spiffe://a/search"', "role": '"provider"', "providers": '["search", "files"]'}


def table(**changed: str | None) -> str:
    values = {key: value for key, value in {**GOOD, **changed}.items() if value is not None}
    return "[[principals]]\n" + "\n".join(f"{key} = {value}" for key, value in values.items()) + "\n"


def test_a_provider_has_its_names_and_the_tenant_without_a_name() -> None:
    assert parse_principals(table().encode(), ONE) == {
        "spiffe://a/search": Principal("spiffe://a/search", ONE, "", Role.PROVIDER, frozenset({"search", "files"}))
    }


def test_tenants_and_roles_are_as_written() -> None:
    text = table(tenant='"blue"') + table(subject='"ops"', role='"operator"', providers=None)
    found = parse_principals(text.encode(), ONE)
    assert [(one.tenant, one.role) for one in found.values()] == [("blue", Role.PROVIDER), ("", Role.OPERATOR)]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (table(subject=None), r"principals\[0\]: subject: is missing"),
        (table(subject="7"), r"principals\[0\]: subject: expected a text"),
        (table(subject='""'), "is not a subject"),
        (table(subject='"two words"'), "is not a subject"),
        (table(role=None), "role: is missing"),
        (table(role='"admin"'), "role: give one of provider, orchestrator, operator"),
        (table(role='"orchestrator"'), "no other role has any"),
        (table(providers=None), "a provider needs the names"),
        (table(providers="[]"), "a provider needs the names"),
        (table(providers='"search"'), "expected a list of texts"),
        (table(providers='["*"]'), "is not a provider name"),
        (table(providers='["all"]'), "reserved"),
        (table(tenant='"Blue"'), "tenant 'Blue'"),
        (table(tenants='"blue"'), "there is no key 'tenants'"),
        (table(by="[]"), "by: give at least one of"),
        (table(by='["tokens"]'), "by: give at least one of what auth.policy knows: mtls"),
        (table(by='["magic"]'), "by: give at least one of"),
        (table() + table(), r"principals\[1\]: the subject 'spiffe://a/search' stands there twice"),
        ("principals = 3", "are tables"),
        ("[principals]\na = 1", "are tables"),
        ("[[principal]]", "there is no key 'principal'"),
        ("not toml", "not TOML"),
    ],
)
def test_anything_else_is_refused_with_its_place(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_principals(text.encode(), ONE)


def test_an_empty_file_has_no_principals() -> None:
    assert parse_principals(b"", ONE) == {}


def test_with_several_kinds_a_principal_must_say_which_of_them_may_name_it() -> None:
    kinds = frozenset({Kind.MTLS, Kind.JWT})
    with pytest.raises(ValueError, match=r"by: auth\.policy knows jwt, mtls; say which"):
        parse_principals(table().encode(), kinds)
    (found,) = parse_principals(table(by='["jwt"]').encode(), kinds).values()
    assert found.by == {Kind.JWT}


def test_all_mistakes_are_told_at_once() -> None:
    text = table(role='"admin"', tenant='"Blue"', by="[]") + table(subject='"b"', providers='["*"]', tenants="1")
    with pytest.raises(ValueError, match=r"principals") as wrong:
        parse_principals(text.encode(), ONE)
    lines = str(wrong.value).split("\n")
    assert [line.split(":")[0] for line in lines] == ["principals[0]"] * 3 + ["principals[1]"] * 2
    many = "".join(table(subject=f'"s{number}"', role='"admin"') for number in range(30))
    with pytest.raises(ValueError, match=r"and 10 more$"):
        parse_principals(many.encode(), ONE)


def test_where_some_have_a_tenant_all_have_but_operators() -> None:
    blue, forgotten = table(tenant='"blue"'), table(subject='"agents"', role='"orchestrator"', providers=None)
    operator = table(subject='"ops"', role='"operator"', providers=None)
    with pytest.raises(ValueError, match="tenant: the principal 'agents' has none, and others have"):
        parse_principals((blue + forgotten + operator).encode(), ONE)
    assert len(parse_principals((blue + operator).encode(), ONE)) == 2
    assert len(parse_principals((forgotten + operator + table()).encode(), ONE)) == 3
