"""Who calls is what the policy's parts say and the principals allow, by the files as they are now."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from broker.auth.authenticator import Authenticator
from broker.auth.caller import Caller, Role
from broker.auth.files import WatchedFile
from broker.auth.parts import Anonymous, Identified, Kind, Presented, Refused
from broker.auth.principals import Principal, parse_principals

PRESENTED = Presented("ipv4:127.0.0.1:1")


class Says:
    """A part that says what a test wants."""

    def __init__(self, subject: str, kind: Kind = Kind.MTLS, expires: float | None = None) -> None:
        self._answer = Identified(subject, frozenset({kind}), expires)

    def identify(self, presented: Presented, now: float, /) -> Identified:
        return self._answer


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "principals.toml"
    path.write_text(
        '[[principals]]\nsubject = "me"\nby = ["mtls"]\ntenant = "red"\nrole = "provider"\nproviders = ["a"]\n'
    )
    return path


def authenticator(part: object, file: Path | None = None) -> Authenticator:
    watched: WatchedFile[Mapping[str, Principal]] | None = None
    if file is not None:
        watched = WatchedFile(file, "auth.principals_file", partial(parse_principals, kinds=frozenset(Kind)))
    files = [] if watched is None else [watched]
    return Authenticator(part, watched, files, kinds=frozenset(Kind), anonymous_operates=False)  # type: ignore[arg-type]


def test_a_subject_is_what_its_principal_says_as_long_as_its_credential_holds(file: Path) -> None:
    expected = Caller("red", "me", frozenset({Role.PROVIDER}), frozenset({"a"}), PRESENTED.connection)
    assert authenticator(Says("me", expires=7.0), file).caller(PRESENTED, 0.0) == (expected, 7.0)


@pytest.mark.parametrize("part", [Says("you"), Says("me", Kind.JWT), Says("")])
def test_a_subject_without_a_principal_of_its_kind_is_no_one(file: Path, part: Says) -> None:
    with pytest.raises(Refused):
        authenticator(part, file).caller(PRESENTED, 0.0)


def test_a_provider_that_needs_another_kind_of_credential_is_not_spoken_for(file: Path) -> None:
    file.write_text(file.read_text().replace('["a"]', '["a", "b"]'))
    principals = WatchedFile(file, "auth.principals_file", partial(parse_principals, kinds=frozenset(Kind)))
    required = {"a": frozenset({Kind.MTLS}), "b": frozenset({Kind.MTLS, Kind.TOKENS})}

    def names(part: object) -> list[str]:
        made = Authenticator(
            part,  # type: ignore[arg-type]
            principals,
            [],
            kinds=frozenset(Kind),
            anonymous_operates=False,
            required=required,
        )
        caller, _ = made.caller(PRESENTED, 0.0)
        return [name for name in ("a", "b", "c") if name in caller.providers]

    assert names(Says("me")) == ["a"]
    assert names(Anonymous()) == ["c"]


def test_without_principals_no_subject_is_anyone() -> None:
    with pytest.raises(Refused):
        authenticator(Says("me")).caller(PRESENTED, 0.0)
    assert authenticator(Anonymous()).caller(PRESENTED, 0.0)[0].subject == ""


def test_a_changed_file_changes_who_calls_and_a_wrong_one_is_told(file: Path) -> None:
    made = authenticator(Says("me"), file)
    assert made.refresh() == (False, [])
    file.write_text(file.read_text().replace("red", "blue"))
    assert [made.refresh(), made.refresh()] == [(False, []), (True, [])]
    assert made.caller(PRESENTED, 0.0)[0].tenant == "blue"
    file.write_text("what")
    made.refresh()
    changed, (problem,) = made.refresh()
    assert (changed, "auth.principals_file" in problem) == (False, True)
    assert made.caller(PRESENTED, 0.0)[0].tenant == "blue"
