"""Parts combine as any and all; what no part identifies is refused, and nothing that is shown to a log is a secret."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.auth.parts import MAX_BEARER, AllOf, Anonymous, AnyOf, Deny, Identified, Kind, Part, Presented, Refused

NOTHING = Presented("ipv4:127.0.0.1:1")


class Known:
    """A part that says what a test wants."""

    def __init__(self, subject: str, kind: Kind = Kind.JWT, expires: float | None = None) -> None:
        self.answer = Identified(subject, frozenset({kind}), expires)

    def identify(self, presented: Presented, now: float, /) -> Identified:
        return self.answer


def test_any_takes_the_first_that_identifies() -> None:
    assert AnyOf([Deny(), Known("one"), Known("two")]).identify(NOTHING, 0.0).subject == "one"


def test_any_of_none_that_identifies_refuses() -> None:
    with pytest.raises(Refused, match="denied; denied"):
        AnyOf([Deny(), Deny()]).identify(NOTHING, 0.0)


def test_all_wants_one_subject_of_every_part_and_ends_with_the_first_that_expires() -> None:
    both = AllOf([Known("me", Kind.MTLS, 20.0), Known("me", Kind.TOKENS), Known("me", Kind.JWT, 10.0)])
    assert both.identify(NOTHING, 0.0) == Identified("me", frozenset(Kind), 10.0)


@pytest.mark.parametrize("parts", [[Known("me"), Known("you")], [Known("me"), Deny()], [Deny(), Known("me")]])
def test_all_refuses_where_one_part_differs_or_refuses(parts: list[Part]) -> None:
    with pytest.raises(Refused):
        AllOf(parts).identify(NOTHING, 0.0)


@given(
    st.recursive(st.booleans(), lambda inner: st.tuples(st.sampled_from(["any", "all"]), st.lists(inner, min_size=1)))
)
def test_parts_combine_like_or_and_and(tree: object) -> None:
    def part(node: object) -> Part:
        if isinstance(node, bool):
            return Known("me") if node else Deny()
        how, inner = node
        return (AnyOf if how == "any" else AllOf)([part(each) for each in inner])

    def truth(node: object) -> bool:
        return node if isinstance(node, bool) else (any if node[0] == "any" else all)(map(truth, node[1]))

    try:
        found = part(tree).identify(NOTHING, 0.0).subject == "me"
    except Refused:
        found = False
    assert found is truth(tree)


@pytest.mark.parametrize(
    "presented", [Presented("c", ("",)), Presented("c", ("Bearer x",)), Presented("c", (), b"certificate")]
)
def test_one_who_brings_a_credential_is_not_anonymous(presented: Presented) -> None:
    assert Anonymous().identify(NOTHING, 0.0) == Identified("", frozenset())
    with pytest.raises(Refused):
        Anonymous().identify(presented, 0.0)


@pytest.mark.parametrize("value", ["Bearer abc.DEF-1_2~3+4/5==", "bearer x", "BEARER x"])
def test_a_bearer_token_is_read_whatever_the_case_of_its_scheme(value: str) -> None:
    assert Presented("c", (value,)).bearer() == value.partition(" ")[2]


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("",),
        ("bearer",),
        ("bearer ",),
        ("Bearer  two-spaces",),
        ("Bearer a b",),
        ("Bearer a\0b",),
        ("Bearer a\r\nb",),
        ("Bearer a\x1b[31m",),
        ("Bearer a\n",),
        ("Bearer é",),
        ("Basic dXNlcjpwYXNz",),
        ("Bearer " + "x" * MAX_BEARER,),
        ("Bearer x", "Bearer x"),
        ("Bearer x", ""),
    ],
    ids=repr,
)
def test_what_is_not_one_bearer_token_is_refused(values: tuple[str, ...]) -> None:
    with pytest.raises(Refused):
        Presented("c", values).bearer()


@given(st.text(min_size=12), st.binary(min_size=12))
def test_no_secret_can_be_read_off_what_is_logged(secret: str, certificate: bytes) -> None:
    presented = Presented("c", (secret,), certificate)
    assert len(presented.fingerprint) == 8
    assert repr(presented) == f"Presented('c', {presented.fingerprint!r})"


def test_the_fingerprint_of_no_credential_is_empty() -> None:
    assert NOTHING.fingerprint == ""
