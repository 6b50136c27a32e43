"""What the configuration says of callers is built as written, and letting everyone in is said aloud."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from broker.auth.authenticator import Authenticator
from broker.auth.caller import Role
from broker.auth.parts import Kind, Presented, Refused
from broker.config import Config
from broker.errors import ConfigError
from broker.rpc.policy import authenticator_of
from tests.rpc.identities import Identities, token_of

NOTHING = Presented("c")
OPEN = {"listen": "0.0.0.0:0", "insecure": True}


def roles(authenticator: Authenticator, presented: Presented = NOTHING) -> set[Role]:
    return set(authenticator.caller(presented, 0.0)[0].roles)


def built(**sections: Any) -> tuple[Authenticator, list[str]]:
    with capture_logs() as logs:
        made = authenticator_of(Config(**sections))
    assert all(entry["log_level"] == "warning" for entry in logs)
    return made, [entry["event"] for entry in logs]


def test_on_loopback_without_a_policy_everyone_may_do_everything_and_the_log_is_loud() -> None:
    made, (said,) = built()
    assert roles(made) == set(Role)
    assert said.startswith("NO AUTHENTICATION")


def test_over_a_network_no_one_becomes_operator_by_saying_nothing() -> None:
    made, (said,) = built(server=OPEN, auth={"policy": "anonymous"})
    assert roles(made) == {Role.PROVIDER, Role.ORCHESTRATOR}
    assert said.startswith("NO AUTHENTICATION")


def test_anonymous_beside_a_credential_never_operates(tmp_path: Path) -> None:
    made, (said,) = built(auth=Identities(tmp_path).auth(policy={"any": ["tokens", "anonymous"]}))
    assert roles(made) == {Role.PROVIDER, Role.ORCHESTRATOR}
    assert "anonymous" in said
    assert roles(made, Presented("c", (f"Bearer {token_of('runs')}",))) == {Role.OPERATOR}
    with pytest.raises(Refused):
        made.caller(Presented("c", (f"Bearer {'x' * 40}",)), 0.0)


def test_deny_lets_no_one_in() -> None:
    made, said = built(auth={"policy": "deny"})
    assert said == []
    with pytest.raises(Refused):
        made.caller(NOTHING, 0.0)


def test_all_with_deny_lets_no_one_in_and_any_with_deny_all_others(tmp_path: Path) -> None:
    good = Presented("c", (f"Bearer {token_of('asks')}",))
    identities = Identities(tmp_path)
    made, _ = built(auth=identities.auth(policy={"all": ["tokens", "deny"]}))
    with pytest.raises(Refused):
        made.caller(good, 0.0)
    made, said = built(auth=identities.auth(policy={"any": ["deny", "tokens"]}))
    assert (roles(made, good), said, made.kinds) == ({Role.ORCHESTRATOR}, [], {Kind.TOKENS})


def test_tokens_in_plain_text_over_a_network_are_warned_of(tmp_path: Path) -> None:
    _, (said,) = built(server=OPEN, auth=Identities(tmp_path).auth())
    assert "plain text" in said


def test_a_symmetric_algorithm_cannot_be_listed(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(json.dumps({"keys": []}))
    given = {"jwks_file": keys, "issuer": "i", "audience": "a"}
    for algorithm in ("HS256", "none", "RS255"):
        auth = {
            "policy": "jwt",
            "principals_file": Identities(tmp_path, by=["jwt"]).principals_file,
            "jwt": {**given, "algorithms": ["RS256", algorithm]},
        }
        with pytest.raises(ConfigError, match=f"auth.jwt.algorithms: '{algorithm}' cannot be taken"):
            authenticator_of(Config(auth=auth))


def test_a_subject_that_its_principal_gives_to_another_kind_of_credential_is_no_one(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(json.dumps({"keys": []}))
    identities = Identities(tmp_path, by=["jwt"])
    auth = identities.auth(policy={"any": ["tokens", "jwt"]}, jwt={"jwks_file": keys, "issuer": "i", "audience": "a"})
    made, _ = built(auth=auth)
    with pytest.raises(Refused, match="does not allow this kind"):
        made.caller(Presented("c", (f"Bearer {token_of('asks')}",)), 0.0)


@pytest.mark.parametrize("file", ["tokens", "principals.toml"])
def test_a_file_that_cannot_be_used_stops_the_start(tmp_path: Path, file: str) -> None:
    identities = Identities(tmp_path)
    (tmp_path / file).write_text("what is this\n")
    with pytest.raises(ConfigError, match=rf"auth\.{file.partition('.')[0]}_file: "):
        authenticator_of(identities.config())
