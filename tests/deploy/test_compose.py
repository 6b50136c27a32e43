"""The compose file names what is there, and its broker would start with the secrets that are made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.config import load
from broker.rpc.server import Broker
from tests.deploy.conftest import DEPLOY, Run

FOLDER = DEPLOY / "compose"
FILE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, Any] = FILE["services"]


def mounts(service: str) -> list[str]:
    return [volume.rsplit(":", 2)[0] for volume in SERVICES[service].get("volumes", []) if volume.startswith(".")]


@pytest.mark.parametrize("service", SERVICES)
def test_what_a_service_mounts_is_there(service: str, made_secrets: Path) -> None:
    for path in mounts(service):
        place = path.replace("./secrets", str(made_secrets))
        assert (FOLDER / place).exists(), path


def test_its_secrets_are_those_that_are_made(made_secrets: Path) -> None:
    for secret in FILE["secrets"].values():
        assert Path(secret["file"].replace("./secrets", str(made_secrets))).is_file()
    address = (made_secrets / "broker" / "store__dsn_file").read_text()
    assert "@postgres:5432/" in address
    assert (made_secrets / "postgres" / "password").read_text().strip() in address


async def test_the_broker_would_start(made_secrets: Path) -> None:
    Broker(load(file=FOLDER / "broker.toml", secrets=made_secrets / "broker"))


def test_the_brokers_own_containers_can_do_little() -> None:
    for name in ("broker", "files"):
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_ports_are_open_to_this_machine_alone() -> None:
    assert all(port.startswith("127.0.0.1:") for service in SERVICES.values() for port in service.get("ports", []))


def test_prometheus_and_grafana_find_what_they_read(tool: Run, tmp_path: Path) -> None:
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (job,) = config["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    assert target == "broker:9464"
    assert job["job_name"] == "context-broker"
    (tmp_path / "alerts.yaml").write_text((DEPLOY / "prometheus" / "alerts.yaml").read_text())
    config["rule_files"] = ["alerts.yaml"]
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    done = tool("promtool", "check", "config", str(tmp_path / "prometheus.yml"))
    assert done.returncode == 0, done.stderr
    provisioning = FOLDER / "grafana" / "provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources" / "prometheus.yaml").read_text())["datasources"]
    (boards,) = yaml.safe_load((provisioning / "dashboards" / "context-broker.yaml").read_text())["providers"]
    assert source["url"] == "http://prometheus:9090"
    assert any(volume.endswith(f":{boards['options']['path']}:ro") for volume in SERVICES["grafana"]["volumes"])
