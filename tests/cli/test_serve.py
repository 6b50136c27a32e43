"""The daemon says when it is ready, stops when it is told, and refuses what it cannot use with exit code 2 or 1."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from datetime import timedelta

import pytest

from broker.cli.main import cli
from tests.authority import Authority


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_tells_its_address_once_and_stops_with_0(start_command, number):
    running = start_command("serve", "--listen", "127.0.0.1:0")
    assert set(running.ready) == {"event", "address"}
    assert running.ready["event"] == "ready"
    assert running.ready["address"].startswith("127.0.0.1:")
    running.process.send_signal(number)
    assert running.process.wait(20) == 0
    assert running.process.stdout.read() == b""


def test_it_stops_when_its_parent_goes(start_command):
    running = start_command("serve", "--listen", "127.0.0.1:0")
    running.process.stdin.close()
    assert running.process.wait(20) == 0


def test_a_taken_port_is_told_and_exits_1(run_command, broker_address):
    done = run_command("serve", "--listen", broker_address)
    assert done.returncode == 1
    assert broker_address in done.stderr.decode()
    assert "in use" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize(
    ("arguments", "env", "says"),
    [
        (["--listen", "nowhere"], {}, "host:port"),
        (["--listen", "0.0.0.0:0"], {}, "insecure"),
        (["--listen", "0.0.0.0:0", "--insecure"], {}, "auth: policy is missing, and other machines can reach"),
        ([], {"CONTEXT_BROKER_AUTH__POLICY": "tokens"}, "which needs tokens_file"),
        (["--config", "no-such-file.toml"], {}, "no-such-file.toml"),
        ([], {"CONTEXT_BROKER_LIMITS__COLLECT_SECOND": "3"}, "collect_seconds"),
        (["--log-level", "loud"], {}, "'debug', 'info', 'warning', 'error'"),
    ],
)
def test_a_broken_configuration_is_told_and_exits_2(run_command, arguments, env, says):
    done = run_command("serve", *arguments, env=env)
    assert done.returncode == 2
    assert says in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize("flaw", ["expired", "of another key", "key open to all"])
def test_a_certificate_that_cannot_be_used_is_told_and_exits_2(run_command, tmp_path, flaw):
    authority = Authority(tmp_path)
    ends = timedelta(minutes=-1 if flaw == "expired" else 1)
    cert, key = authority.issue("server", ends=ends)
    if flaw == "of another key":
        key = authority.issue("other")[1]
    elif flaw == "key open to all":
        key.chmod(0o644)
    done = run_command("serve", "--listen", "127.0.0.1:0", "--tls-cert", str(cert), "--tls-key", str(key))
    assert done.returncode == 2
    assert "server.tls_" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_a_broken_file_is_told_and_exits_2(run_command, tmp_path):
    path = tmp_path / "broker.toml"
    path.write_text("[server]\nlistne = '127.0.0.1:0'\n")
    done = run_command("serve", "--config", str(path), "--json")
    assert done.returncode == 2
    assert "server.listen" in done.stderr.decode()
    assert json.loads(done.stdout)["reason"] == "CONFIG"


def test_a_reranker_that_cannot_be_loaded_is_told_and_exits_2(run_command, tmp_path):
    path = tmp_path / "broker.toml"
    path.write_text(f"[rerankers.near]\nkind = 'cross-encoder'\ndirectory = '{tmp_path}'\n")
    done = run_command("serve", "--listen", "127.0.0.1:0", "--config", str(path))
    assert done.returncode == 2
    assert f"rerankers.near: there is no file model.onnx in {tmp_path}" in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


def test_without_the_extra_it_says_what_to_install(monkeypatch):
    from click.testing import CliRunner

    monkeypatch.setitem(sys.modules, "pydantic_settings", None)
    for name in [name for name in sys.modules if name.startswith(("broker.config", "broker.settings", "broker.rpc."))]:
        monkeypatch.delitem(sys.modules, name)
    done = CliRunner().invoke(cli, ["serve"])
    assert done.exit_code == 2
    assert "pydantic_settings" in done.stderr
    assert "pip install 'context-broker[server]'" in done.stderr


def test_help_needs_no_server():
    code = (
        "import sys; sys.modules['pydantic_settings'] = None; from broker.cli.main import cli;"
        "cli(['serve', '--help'], standalone_mode=False); print('grpc' in sys.modules, 'asyncio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'context-broker[server]'" in done.stdout
    assert done.stdout.splitlines()[-1] == "False False"


def test_help_ends_with_the_whole_configuration():
    from click.testing import CliRunner

    from broker.cli.config_sample import config_sample

    text = CliRunner().invoke(cli, ["serve", "--help"]).stdout
    assert textwrap.dedent(text[text.index("  [server]") :]).strip() == config_sample()
