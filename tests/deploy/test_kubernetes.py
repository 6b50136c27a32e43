"""The manifests build, are valid to the letter, fit together, and give the broker a configuration that it takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from broker.config import load
from broker.errors import ConfigError
from broker.rpc.server import Broker
from tests.deploy.conftest import DEPLOY, Run

FOLDER = DEPLOY / "kubernetes"
KNOWN_ELSEWHERE = {"ServiceMonitor"}
"""Kinds that Kubernetes itself has no schema of."""


OLDEST = (1, 21)
"""The first kubectl that builds directories out of directories."""


@pytest.fixture(scope="module")
def built(tool: Run) -> dict[str, list[dict[str, Any]]]:
    version = yaml.safe_load(tool("kubectl", "version", "--client", "--output", "yaml").stdout)["clientVersion"]
    if (int(version["major"]), int(version["minor"].rstrip("+"))) < OLDEST:
        pytest.skip(f"kubectl {version['gitVersion']} is too old to build the manifests")

    def build(name: str) -> list[dict[str, Any]]:
        done = tool("kubectl", "kustomize", str(FOLDER / name))
        assert done.returncode == 0, done.stderr
        return list(yaml.safe_load_all(done.stdout))

    return {name: build(name) for name in ("broker", "monitoring", "scaling")}


def one(manifests: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    (found,) = [each for each in manifests if each["kind"] == kind and "replicas" not in each["metadata"]["name"]]
    return found


def container(manifests: list[dict[str, Any]]) -> dict[str, Any]:
    (found,) = one(manifests, "Deployment")["spec"]["template"]["spec"]["containers"]
    return found


def valid(manifests: list[dict[str, Any]], tool: Run, file: Path) -> None:
    checked = [each for each in manifests if each["kind"] not in KNOWN_ELSEWHERE]
    file.write_text(yaml.safe_dump_all(checked))
    done = tool("kubernetes-validate", "--strict", str(file))
    told = done.stdout + done.stderr
    assert (done.returncode, told.count("passed")) == (0, len(checked)), told


def test_each_manifest_is_valid(tool: Run, tmp_path: Path) -> None:
    files = [file for file in FOLDER.rglob("*.yaml") if file.name != "kustomization.yaml"]
    valid([yaml.safe_load(file.read_text()) for file in files], tool, tmp_path / "all.yaml")


def test_what_is_built_is_valid(built: dict[str, list[dict[str, Any]]], tool: Run, tmp_path: Path) -> None:
    valid(built["scaling"], tool, tmp_path / "all.yaml")


def test_every_manifest_is_built(built: dict[str, list[dict[str, Any]]]) -> None:
    kinds = {yaml.safe_load(file.read_text())["kind"] for file in FOLDER.rglob("*/*.yaml")} - {"Kustomization"}
    assert {each["kind"] for each in built["scaling"]} == kinds | {"ConfigMap"}


def test_they_select_one_another(built: dict[str, list[dict[str, Any]]]) -> None:
    manifests = built["scaling"]
    labels = one(manifests, "Deployment")["spec"]["template"]["metadata"]["labels"]
    service = one(manifests, "Service")
    selectors = [
        one(manifests, "Deployment")["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        one(manifests, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one(manifests, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(selector.items() <= labels.items() for selector in selectors)
    monitor = one(manifests, "ServiceMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {each["port"] for each in monitor["endpoints"]} <= {each["name"] for each in service["spec"]["ports"]}
    ports = {each["name"] for each in container(manifests)["ports"]}
    assert {each["targetPort"] for each in service["spec"]["ports"]} <= ports
    assert one(manifests, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == "context-broker"
    assert "replicas" not in one(manifests, "Deployment")["spec"]


def test_the_broker_runs_without_rights(built: dict[str, list[dict[str, Any]]]) -> None:
    pod = one(built["broker"], "Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container(built["broker"])["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


async def test_it_would_start_with_the_secrets_that_are_made_and_not_with_the_samples(
    built: dict[str, list[dict[str, Any]]], made_secrets: Path, tmp_path: Path
) -> None:
    config = tmp_path / "broker.toml"
    config.write_text(one(built["broker"], "ConfigMap")["data"]["broker.toml"])
    Broker(load(file=config, secrets=made_secrets / "broker"))
    samples = yaml.safe_load((FOLDER / "secret.example.yaml").read_text())["stringData"]
    made = {file.name: file.read_text() for file in (made_secrets / "broker").iterdir()}
    assert samples.keys() == made.keys()
    for name, sample in samples.items():
        directory = tmp_path / name
        directory.mkdir()
        for other, text in {**made, name: sample}.items():
            (directory / other).touch(mode=0o600)
            (directory / other).write_text(text)
        with pytest.raises(ConfigError, match=name):
            Broker(load(file=config, secrets=directory))


def test_it_ends_before_it_is_killed(built: dict[str, list[dict[str, Any]]], made_secrets: Path) -> None:
    pod = one(built["broker"], "Deployment")["spec"]["template"]["spec"]
    config = load(file=FOLDER / "broker" / "broker.toml", secrets=made_secrets / "broker")
    assert config.server.grace_seconds < pod["terminationGracePeriodSeconds"]


def test_its_probes_are_commands_that_there_are(built: dict[str, list[dict[str, Any]]], broker_command: Run) -> None:
    for probe in ("startupProbe", "readinessProbe"):
        program, *arguments = container(built["broker"])[probe]["exec"]["command"]
        assert program == "context-broker"
        done = broker_command(*arguments, "--address", "127.0.0.1:1")
        assert done.returncode == 1
        assert "UNREACHABLE" in done.stderr
