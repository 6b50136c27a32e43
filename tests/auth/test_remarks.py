"""Promise: files that let in no one, or not whom they seem to, are told of; those that are as they seem are not."""

from __future__ import annotations

import pytest

from broker.auth.caller import Role
from broker.auth.parts import Kind
from broker.auth.principals import Principal
from broker.auth.remarks import remarks

TOKENS, BOTH = frozenset({Kind.TOKENS}), frozenset({Kind.TOKENS, Kind.MTLS})


def principals(**by: frozenset[Kind]) -> dict[str, Principal]:
    return {name: Principal(name, kinds, "", Role.ORCHESTRATOR, frozenset()) for name, kinds in by.items()}


@pytest.mark.parametrize(
    ("known", "tokens", "told"),
    [
        ({}, None, ["no one with a credential can call: auth.principals_file has no principal"]),
        ({}, ["a"], ["no one with a credential can call: auth.principals_file has no principal"]),
        ({"a": TOKENS}, [], ["no one with a credential can call: auth.tokens_file has no token of any principal"]),
        ({"a": TOKENS, "b": TOKENS}, ["b"], ["no token stands for 'a'"]),
        ({"a": TOKENS}, ["a", "c", "b"], ["tokens stand for 'b', 'c', and no principal does"]),
        ({"a": TOKENS, "b": BOTH}, ["a"], []),
        ({"a": BOTH}, [], []),
        ({"a": frozenset({Kind.JWT})}, None, []),
    ],
)
def test_what_is_odd_is_told(known: dict[str, frozenset[Kind]], tokens: list[str] | None, told: list[str]) -> None:
    found = list(remarks(principals(**known), tokens))
    assert len(found) == len(told)
    assert all(text.startswith(start) for text, start in zip(found, told, strict=True))


def test_of_many_a_remark_names_a_few() -> None:
    many = principals(**{f"s{number}": TOKENS for number in range(9)}, a=TOKENS)
    (told,) = remarks(many, ["a"])
    assert "'s4', 4 more, whom" in told
