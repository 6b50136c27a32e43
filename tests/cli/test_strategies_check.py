"""The gate by hand: what it says of built-in and installed policies, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from broker.gate.run import CHECKS
from tests.plugins.installing import write


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which the example distribution is installed."""
    return {"PYTHONPATH": str(write(tmp_path_factory.mktemp("plugins")))}


def test_built_in_policies_pass_without_a_broker(run_command):
    done = run_command("strategies", "check", "round_robin", "score_descending")
    assert done.returncode == 0
    heading, first, second, _, *legend = done.stdout.decode().splitlines()
    assert heading.split() == ["policy", *CHECKS]
    assert first.split() == ["round_robin", *["holds"] * 7]
    assert second.split() == ["score_descending", "holds", "exempt", *["holds"] * 5]
    assert [line.split()[0] for line in legend] == list(CHECKS)
    assert legend[0].endswith("one provider's scores change nothing of another's")


def test_a_refused_plugin_ends_with_1_and_its_counterexample(run_command, plugins):
    done = run_command("strategies", "check", "kind_first", "careless", env=plugins)
    assert done.returncode == 1
    text = done.stdout.decode()
    assert text.splitlines()[1].split() == ["kind_first", *["holds"] * 7]
    assert "order is broken: its result is a permutation" in text
    assert "its order had to be repaired: appended 1 that were left out" in text
    assert text.splitlines()[-1].split()[0] in ("ash", "birch", "cedar", "elm", "fir")
    assert "the gate refuses careless" in done.stderr.decode()


@pytest.mark.parametrize(
    "arguments", [("strategies", "check", "hashed", "--json"), ("strategies", "--json", "check", "hashed")]
)
def test_records(run_command, plugins, arguments):
    done = run_command(*arguments, env=plugins)
    assert done.returncode == 1
    verdict, error = map(json.loads, done.stdout.splitlines())
    assert (verdict["name"], verdict["passed"]) == ("hashed", False)
    assert verdict["properties"] == {**dict.fromkeys(CHECKS, "holds"), "T4": "broken"}
    assert verdict["counterexamples"][0]["says"] == "it answers differently under another seed of Python's hashes"
    assert (error["event"], error["reason"]) == ("error", "GATE_REFUSED")


def test_a_name_that_is_none_is_wrong_usage(run_command, plugins):
    done = run_command("strategies", "check", "rrf", env=plugins)
    assert done.returncode == 2
    text = done.stderr.decode()
    assert "no strategy is called 'rrf'" in text
    assert "reciprocal_rank_fusion" in text
    assert "kind_first" in text


@pytest.mark.parametrize(("name", "says"), [("nothing", "is no ranking policy"), ("uninvited", "cannot be loaded")])
def test_what_cannot_be_checked_is_told(run_command, plugins, name, says):
    done = run_command("strategies", "check", name, env=plugins)
    assert done.returncode == 2
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_help_needs_nothing_loaded():
    from click.testing import CliRunner

    from broker.cli.main import cli

    done = CliRunner().invoke(cli, ["strategies", "check", "--help"])
    assert done.exit_code == 0
    assert "counterexamples" in done.output


# --- the daemon


def test_a_daemon_allows_what_passed_and_serves_it(start_command, run_command, plugins, monkeypatch, tmp_path: Path):
    for key, value in plugins.items():
        monkeypatch.setenv(key, value)
    config = tmp_path / "broker.toml"
    config.write_text("[ranking]\nplugins = ['kind_first']\n")
    address = start_command("serve", "--listen", "127.0.0.1:0", "--config", str(config)).ready["address"]
    frames = tmp_path / "frames.jsonl"
    kinds = (("a", "snippet", 0.9), ("b", "doc", 0.8), ("c", "fact", 0.7))
    frames.write_text(
        "\n".join(
            json.dumps({"id": name, "title": name, "content": name, "kind": kind, "score": score})
            for name, kind, score in kinds
        )
    )
    listed = run_command("strategies", "--address", address, "--json")
    found = {record["name"]: record for record in map(json.loads, listed.stdout.splitlines())}
    assert found["kind_first"]["version"] == "1.2.0"
    assert found["round_robin"]["version"] != "1.2.0"
    told = run_command("strategies", "--address", address).stdout.decode()
    assert any(line.startswith("kind_first  1.2.0") for line in told.splitlines())
    query = ("query", "what?", "--address", address, "--no-providers", "--inline", f"own={frames}", "--json")
    done = run_command(*query, "--plugin", "kind_first", "--param", "kind=fact")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    (completed,) = [record for record in records if record["event"] == "completed"]
    assert completed["strategy"]["name"] == "kind_first"
    assert completed["strategy"]["params"] == {"kind": "fact", "turns": 1}
    placed = {record["rank"]: record["frame"]["id"] for record in records if record["event"] == "placed"}
    assert [placed[rank] for rank in sorted(placed)] == ["c", "a", "b"]
    refused = run_command(*query, "--plugin", "kind_first", "--param", "min_score=0.5")
    assert refused.returncode == 2
    assert "STRATEGY_PARAMS" in refused.stderr.decode()


@pytest.mark.parametrize(
    ("ranking", "says"),
    [
        ("plugins = ['walker']", ["the gate refuses the plugin 'walker'", "T2 is broken", "T5 is broken", "->"]),
        ("plugins = ['no_such']", ["no plugin called 'no_such' is installed", "kind_first"]),
        ("plugins = ['nothing']", ["is no ranking policy: it has no description, parameters, order"]),
        ("rerankers = ['kind_first']", ["no plugin called 'kind_first' is installed (context_broker.rerankers)"]),
    ],
)
def test_a_daemon_does_not_start_with_what_it_cannot_allow(run_command, plugins, tmp_path, ranking, says):
    config = tmp_path / "broker.toml"
    config.write_text(f"[ranking]\n{ranking}\n")
    done = run_command("serve", "--listen", "127.0.0.1:0", "--config", str(config), "--json", env=plugins)
    assert done.returncode == 2
    (error,) = map(json.loads, done.stdout.splitlines())
    assert (error["event"], error["reason"]) == ("error", "CONFIG")
    for part in says:
        assert part in done.stderr.decode()
        assert part in error["message"]
    assert "Traceback" not in done.stderr.decode()


def test_a_plugin_by_environment_variable_and_its_file_in_the_log(command_line, plain_environment, plugins):
    import subprocess

    environment = {**plain_environment, **plugins, "CONTEXT_BROKER_RANKING__PLUGINS": "kind_first"}
    command = command_line("serve", "--listen", "127.0.0.1:0", "--json", "--exit-with-parent")
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert json.loads(process.stdout.readline())["event"] == "ready"
        process.stdin.close()
        logged = [json.loads(line) for line in process.stderr.read().splitlines()]
        assert process.wait(20) == 0
    (allowed,) = [record for record in logged if record["event"] == "plugin allowed"]
    assert (allowed["plugin"], allowed["version"], allowed["distribution"]) == (
        "kind_first",
        "1.2.0",
        "example-ranking 2.0",
    )
    assert allowed["digest"].startswith("sha256:")
