"""A configuration is made, shown with each value's origin and without secrets, and checked before anything runs."""

from __future__ import annotations

import json
import re
import stat
import tomllib
from pathlib import Path

import pytest

from broker.cli.config_sample import config_file, config_sample

NONE = "{folder}/none"


# --- init


def test_a_new_file_says_every_key_changes_nothing_and_passes_the_check(run_command, tmp_path):
    path = tmp_path / "broker.toml"
    done = run_command("config", "init", str(path))
    assert done.returncode == 0
    assert str(path) in done.stdout.decode()
    assert path.read_text() == config_file()
    assert all(table == {} for table in tomllib.loads(config_file()).values())
    keys = re.findall(r"^(?:# )?(\w+) = ", config_sample(), re.MULTILINE)
    assert re.findall(r"^# (\w+) = ", config_file(), re.MULTILINE) == keys
    assert not path.stat().st_mode & stat.S_IWOTH
    checked = run_command("config", "check", "--config", str(path))
    assert (checked.returncode, checked.stdout.decode()) == (0, f"the configuration is good: {path}\n")
    # Its value is what serve is told, as it was typed.
    assert f"serve --config {path} " in done.stdout.decode()


def test_a_file_that_is_there_is_written_over_by_force_alone(run_command, tmp_path):
    path = tmp_path / "broker.toml"
    path.write_text("[log]\n")
    done = run_command("config", "init", str(path))
    assert done.returncode == 2
    assert "--force" in done.stderr.decode()
    assert path.read_text() == "[log]\n"
    assert run_command("config", "init", str(path), "--force").returncode == 0
    assert path.read_text() == config_file()


def test_it_writes_to_standard_output_where_asked_to(run_command):
    assert run_command("config", "init", "-").stdout.decode() == config_file()


# --- show


def test_every_value_is_shown_with_its_origin_and_no_secret(run_command, tmp_path):
    path, secrets = tmp_path / "broker.toml", tmp_path / "secrets"
    path.write_text(
        "[limits]\nmax_tokens = 5\n[providers.docs.scale]\nid = 'bm25'\nmax = inf\n"
        "[auth]\npolicy = 'tokens'\ntokens_file = 'none'\nprincipals_file = 'none'\n"
    )
    secrets.mkdir()
    for name, text in (
        ("log__level", "debug"),
        ("store__dsn_file", "postgresql://u:hunter2@h/d"),
        ("store__kind", "postgresql"),
    ):
        (secrets / name).write_text(text)
        (secrets / name).chmod(0o600)
    environment = {"CONTEXT_BROKER_SERVER__GRACE_SECONDS": "3"}
    arguments = ("config", "show", "--config", str(path), "--secrets", str(secrets))
    done = run_command(*arguments, "--json", env=environment)
    assert done.returncode == 0, done.stderr
    found = {record["key"]: record for record in map(json.loads, done.stdout.splitlines())}
    assert found["limits.max_tokens"] == {
        "key": "limits.max_tokens", "value": 5, "origin": f"configuration file {path}", "reloadable": True,
    }  # fmt: skip
    assert found["server.grace_seconds"]["origin"] == "environment variable CONTEXT_BROKER_SERVER__GRACE_SECONDS"
    assert (found["server.grace_seconds"]["value"], found["server.grace_seconds"]["reloadable"]) == (3.0, False)
    assert (found["log.level"]["value"], found["log.level"]["origin"]) == (
        "(secret)",
        f"secret file {secrets / 'log__level'}",
    )
    assert found["store.dsn_file"]["value"] == str(secrets / "store__dsn_file")
    assert found["providers.docs.scale.max"]["value"] == "inf"
    assert found["server.listen"]["origin"] == "default"
    assert b"hunter2" not in done.stdout

    plain = run_command(*arguments, env=environment).stdout.decode()
    values = tomllib.loads(plain)
    assert values["limits"]["max_tokens"] == 5
    assert values["server"]["grace_seconds"] == 3.0
    changed = run_command(*arguments, "--changed", env=environment).stdout.decode()
    assert set(tomllib.loads(changed)) == {"server", "auth", "limits", "providers", "store", "log"}


def test_a_password_within_an_address_is_not_shown(run_command, tmp_path):
    path = tmp_path / "broker.toml"
    path.write_text(
        "[auth]\npolicy = 'jwt'\nprincipals_file = 'none'\n"
        "[auth.jwt]\njwks_file = 'none'\naudience = 'us'\nissuer = 'https://user:hunter2@issuer.example'\n"
    )
    shown = run_command("config", "show", "--config", str(path)).stdout.decode()
    assert "hunter2" not in shown
    assert "https://(secret)@issuer.example" in shown


# --- check


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[limits]\nmax_tokns = 5\n", "there is no key 'limits.max_tokns'; the nearest is 'limits.max_tokens'"),
        ("[limits]\nmax_tokens = 'many'\n", "limits.max_tokens: input should be a valid integer"),
        ("[render]\nseal_key_file = '{folder}/none'\n", "render.seal_key_file: {folder}/none: No such file"),
        ("[render]\nseal_key_file = '{folder}/sample'\n", "holds the sample"),
        ("[server]\nlisten = '0.0.0.0:1'\n", "other machines can reach"),
        ("[server]\ntls_cert = '{folder}/none'\ntls_key = '{folder}/none'\n", "{folder}/none"),
        ("[ranking]\nplugins = ['no-such-plugin']\n", "no-such-plugin"),
        ("[store]\nkind = 'postgresql'\ndsn_file = '{folder}/sample'\n", "holds the sample"),
        ("[limits]\nmemory_bytes = 1\n", "limits.memory_bytes: input should be greater than or equal to 67108864"),
        (f"[auth]\npolicy = 'tokens'\ntokens_file = '{NONE}'\nprincipals_file = '{NONE}'\n", "auth.tokens_file"),
    ],
)  # fmt: skip
def test_what_would_stop_the_daemon_is_told_and_exits_2(run_command, tmp_path: Path, text: str, told: str):
    (tmp_path / "sample").write_text("CHANGE-ME-CHANGE-ME")
    (tmp_path / "sample").chmod(0o600)
    path = tmp_path / "broker.toml"
    path.write_text(text.replace("{folder}", str(tmp_path)))
    done = run_command("config", "check", "--config", str(path), "--json")
    assert done.returncode == 2
    assert told.replace("{folder}", str(tmp_path)) in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    record = json.loads(done.stdout.splitlines()[-1])
    assert (record["event"], record["reason"]) == ("error", "CONFIG")


def test_what_has_nothing_wrong_is_good(run_command):
    done = run_command("config", "check", "--json")
    assert json.loads(done.stdout) == {"event": "good", "file": None, "secrets": None, "remarks": []}


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    import sys

    from click.testing import CliRunner

    from broker.cli.main import cli

    monkeypatch.setitem(sys.modules, "pydantic_settings", None)
    for name in [name for name in sys.modules if name.startswith(("broker.config", "broker.settings"))]:
        monkeypatch.delitem(sys.modules, name)
    done = CliRunner().invoke(cli, ["config", "show"])
    assert done.exit_code == 2
    assert "pip install 'context-broker[server]'" in done.stderr


def test_files_that_let_no_one_in_are_good_and_told_of(run_command, tmp_path):
    (tmp_path / "tokens").write_text("")
    (tmp_path / "principals").write_text('[[principals]]\nsubject = "a"\nrole = "orchestrator"\n')
    path = tmp_path / "broker.toml"
    files = f"tokens_file = '{tmp_path}/tokens'\nprincipals_file = '{tmp_path}/principals'\n"
    path.write_text(f"[auth]\npolicy = 'tokens'\n{files}")
    done = run_command("config", "check", "--config", str(path))
    assert done.returncode == 0, done.stderr
    assert "\n  but no one with a credential can call: auth.tokens_file" in done.stdout.decode()
    record = json.loads(run_command("config", "check", "--config", str(path), "--json").stdout)
    assert [text.partition(":")[0] for text in record["remarks"]] == ["no one with a credential can call"]


def test_every_mistake_among_principals_is_on_a_line_of_its_own(run_command, tmp_path):
    (tmp_path / "tokens").write_text("")
    (tmp_path / "principals").write_text('[[principals]]\nsubject = "a"\nrole = "x"\ntenant = "X"\n')
    path = tmp_path / "broker.toml"
    files = f"tokens_file = '{tmp_path}/tokens'\nprincipals_file = '{tmp_path}/principals'\n"
    path.write_text(f"[auth]\npolicy = 'tokens'\n{files}")
    done = run_command("config", "check", "--config", str(path))
    assert done.returncode == 2
    lines = done.stderr.decode().splitlines()
    assert [line.startswith("  principals[0]: ") for line in lines[-2:]] == [True, True]


def test_a_file_that_init_wrote_here_and_that_is_not_named_is_told_of(run_command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_command("config", "init").returncode == 0
    told = run_command("config", "check").stdout.decode()
    assert "but context-broker.toml is here and was not read: name it with --config" in told
