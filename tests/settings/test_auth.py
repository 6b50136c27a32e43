"""Who may call is said whole or not at all: what is missing, left over or contradicts is refused at the start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.config import load
from broker.errors import ConfigError
from broker.settings.auth import parts_of

OPEN = {"listen": "0.0.0.0:0"}
TLS = {**OPEN, "tls_cert": "c", "tls_key": "k"}
JWT = {"jwks_file": "keys", "issuer": "i", "audience": "a"}
WHOLE = {"policy": "tokens", "tokens_file": "t", "principals_file": "p"}


def refused(auth: dict[str, Any], server: dict[str, Any] | None = None) -> str:
    with pytest.raises(ConfigError) as error:
        load({"server": server or {}, "auth": auth})
    return str(error.value)


@pytest.mark.parametrize("server", [{**OPEN, "insecure": True}, TLS, {**TLS, "tls_client_ca": "ca"}])
def test_no_authentication_on_an_address_that_others_reach_is_refused(server: dict[str, Any]) -> None:
    assert "auth: policy is missing, and other machines can reach 0.0.0.0:0" in refused({}, server)


@pytest.mark.parametrize("server", [{**OPEN, "insecure": True}, TLS])
def test_it_is_taken_where_it_is_said(server: dict[str, Any]) -> None:
    assert load({"server": server, "auth": {"policy": "anonymous"}}).auth.parts == {"anonymous"}


def test_saying_it_does_not_make_plain_text_allowed() -> None:
    assert "set tls_cert and tls_key, or insecure" in refused({"policy": "anonymous"}, OPEN)


def test_on_loopback_it_need_not_be_said() -> None:
    assert load().auth.policy is None


@pytest.mark.parametrize(
    ("auth", "told"),
    [
        ({"policy": "tokens", "principals_file": "p"}, "names 'tokens', which needs tokens_file"),
        ({"policy": "jwt", "principals_file": "p"}, "names 'jwt', which needs jwt"),
        ({"policy": "tokens", "tokens_file": "t"}, "principals_file is missing"),
        ({"tokens_file": "t"}, "policy does not name 'tokens': it would be asked of no one"),
        ({"policy": "deny", "tokens_file": "t"}, "policy does not name 'tokens'"),
        ({"policy": "anonymous", "jwt": JWT}, "policy does not name 'jwt'"),
        ({"principals_file": "p"}, "policy names nothing that knows a subject"),
        ({"policy": "anonymous", "principals_file": "p"}, "policy names nothing that knows a subject"),
        ({"policy": "mtls", "principals_file": "p"}, "names 'mtls', which needs server.tls_client_ca"),
        ({**WHOLE, "policy": {"any": ["tokens", "mtls"]}}, "names 'mtls', which needs server.tls_client_ca"),
        ({"policy": "everyone"}, "expected 'mtls', 'tokens', 'jwt', 'anonymous', 'deny'"),
        ({"policy": ""}, "expected 'mtls'"),
        ({"policy": {}}, "expected 'mtls'"),
        ({"policy": {"any": []}}, "expected 'mtls'"),
        ({"policy": {"none": ["deny"]}}, "expected 'mtls'"),
        ({"policy": {"any": ["deny"], "all": ["deny"]}}, "expected 'mtls'"),
        ({"policy": {"any": "deny"}}, "expected 'mtls'"),
        ({"policy": ["deny"]}, "expected 'mtls'"),
        ({"policy": '{"any": ["nope"]}'}, "expected 'mtls'"),
        ({"policy": "jwt", "principals_file": "p", "jwt": {**JWT, "issuer": ""}}, "auth.jwt.issuer"),
        ({"policy": "jwt", "principals_file": "p", "jwt": {**JWT, "audience": ""}}, "auth.jwt.audience"),
        ({"policy": "jwt", "principals_file": "p", "jwt": {**JWT, "algorithms": []}}, "auth.jwt.algorithms"),
        ({"policy": "jwt", "principals_file": "p", "jwt": {**JWT, "leeway_seconds": 301}}, "auth.jwt.leeway_seconds"),
        ({"policy": "jwt", "principals_file": "p", "jwt": {"jwks_file": "k"}}, "auth.jwt.issuer"),
        ({"polcy": "deny"}, "there is no key 'auth.polcy'; the nearest is 'auth.policy'"),
    ],
)
def test_a_policy_without_what_it_needs_or_with_what_it_does_not_is_refused(auth: dict[str, Any], told: str) -> None:
    assert told in refused(auth)


def test_a_client_authority_needs_tls() -> None:
    assert "tls_client_ca needs tls_cert and tls_key" in refused({}, {"tls_client_ca": "ca"})


def test_a_policy_too_deep_is_refused() -> None:
    policy: Any = "deny"
    for _ in range(20):
        policy = {"any": [policy]}
    assert "expected 'mtls'" in refused({"policy": policy})


def test_a_policy_can_be_written_in_a_file_and_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker.toml"
    file.write_text(
        '[auth]\npolicy = { any = [{ all = ["jwt", "tokens"] }, "tokens"] }\ntokens_file = "t"\nprincipals_file = "p"\n'
        '[auth.jwt]\njwks_file = "k"\nissuer = "i"\naudience = "a"\n'
    )
    written = {"any": ({"all": ("jwt", "tokens")}, "tokens")}
    assert load(file=file).auth.policy == written
    monkeypatch.setenv("CONTEXT_BROKER_AUTH__POLICY", '{"any": [{"all": ["jwt", "tokens"]}, "tokens"]}')
    monkeypatch.setenv("CONTEXT_BROKER_AUTH__TOKENS_FILE", "t")
    monkeypatch.setenv("CONTEXT_BROKER_AUTH__PRINCIPALS_FILE", "p")
    monkeypatch.setenv("CONTEXT_BROKER_AUTH__JWT", '{"jwks_file": "k", "issuer": "i", "audience": "a"}')
    assert load().auth.policy == written
    monkeypatch.setenv("CONTEXT_BROKER_AUTH__POLICY", "deny")
    monkeypatch.delenv("CONTEXT_BROKER_AUTH__JWT")
    monkeypatch.delenv("CONTEXT_BROKER_AUTH__TOKENS_FILE")
    monkeypatch.delenv("CONTEXT_BROKER_AUTH__PRINCIPALS_FILE")
    assert load().auth.policy == "deny"


def test_the_parts_of_a_policy_are_found_at_any_depth() -> None:
    assert set(parts_of({"any": ({"all": ("jwt", "tokens")}, "mtls")})) == {"jwt", "tokens", "mtls"}
    assert list(parts_of(None)) == []
