"""The example of an edge speaks TLS outside, HTTP/2 inside, and does not end the sessions of providers."""

from __future__ import annotations

from typing import Any

import yaml

from broker.settings import Limits
from tests.deploy.conftest import DEPLOY

FILE: dict[str, Any] = yaml.safe_load((DEPLOY / "envoy" / "envoy.yaml").read_text())
RESOURCES = FILE["static_resources"]


def connection_manager() -> dict[str, Any]:
    (listener,) = RESOURCES["listeners"]
    (chain,) = listener["filter_chains"]
    assert chain["transport_socket"]["typed_config"]["@type"].endswith("DownstreamTlsContext")
    (filter_,) = chain["filters"]
    return filter_["typed_config"]


def test_sessions_last() -> None:
    manager = connection_manager()
    assert manager["stream_idle_timeout"] == "0s"
    (host,) = manager["route_config"]["virtual_hosts"]
    routes = {route["match"]["prefix"]: route for route in host["routes"]}
    assert routes["/"]["route"]["timeout"] == "0s"
    assert routes["/"]["route"]["cluster"] == RESOURCES["clusters"][0]["name"]
    assert "direct_response" in routes["/contextbroker.v1.OperatorService/"]


def test_browsers_are_served_and_the_router_comes_last() -> None:
    names = [each["name"].rpartition(".")[2] for each in connection_manager()["http_filters"]]
    assert names == ["grpc_web", "cors", "router"]


def test_a_connection_is_never_asked_for_more_streams_than_the_broker_takes() -> None:
    (cluster,) = RESOURCES["clusters"]
    (options,) = cluster["typed_extension_protocol_options"].values()
    most = options["explicit_http_config"]["http2_protocol_options"]["max_concurrent_streams"]
    assert most < Limits().connection_streams
    assert cluster["transport_socket"]["typed_config"]["@type"].endswith("UpstreamTlsContext")
