"""The operators' HTTP port answers what it is for, and a peer that does anything else costs it little."""

from __future__ import annotations

import errno
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from broker.telemetry import admin
from broker.telemetry.admin import CONNECTIONS, AdminServer


class Port:
    """A port whose checks a test decides."""

    def __init__(self) -> None:
        self.problems = {"alive": "", "ready": ""}
        registry = CollectorRegistry()
        Counter("things", "Things.", registry=registry).inc(3, exemplar={"trace_id": "abc"})
        self.server = AdminServer(
            "127.0.0.1:0", registry, alive=lambda: self.problems["alive"], ready=lambda: self.problems["ready"]
        )
        self.address = self.server.open()

    def get(self, path: str, **headers: str) -> tuple[int, str, str]:
        """Status, content type and body."""
        request = urllib.request.Request(f"http://{self.address}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def connect(self) -> socket.socket:
        host, _, port = self.address.rpartition(":")
        return socket.create_connection((host, int(port)), timeout=10)

    def say(self, data: bytes) -> bytes:
        """What a peer gets that sends this and ends its side."""
        with self.connect() as peer:
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: peer.recv(65_536), b""))


@pytest.fixture
def port() -> Iterator[Port]:
    port = Port()
    yield port
    port.server.close()


def test_metrics_are_shown_to_a_scraper_as_it_likes_them(port: Port) -> None:
    status, kind, text = port.get("/metrics")
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    assert "things_total 3.0" in text
    _, kind, text = port.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text")
    (family,) = text_string_to_metric_families(text)
    (sample,) = [sample for sample in family.samples if sample.name == "things_total"]
    assert sample.exemplar.labels == {"trace_id": "abc"}


def test_probes_say_what_is_wrong(port: Port) -> None:
    assert port.get("/healthz")[::2] == (200, "ok\n")
    assert port.get("/readyz?verbose")[::2] == (200, "ok\n")
    port.problems = {"alive": "hangs", "ready": "draining"}
    assert port.get("/healthz")[::2] == (503, "hangs\n")
    assert port.get("/readyz")[::2] == (503, "draining\n")


@pytest.mark.parametrize("path", ["/", "/metrics/", "/..", "/healthz/x", "/%2e%2e/metrics"])
def test_nothing_else_is_there(port: Port, path: str) -> None:
    assert port.get(path)[0] == 404


@pytest.mark.parametrize(
    "data",
    [
        b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
        b"DELETE /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n",
        b"GET /metrics HTTP/1.1\r\nno colon at all",
        b"",
    ],
)
def test_what_is_no_request_is_answered_plainly_or_not_at_all(port: Port, data: bytes) -> None:
    answer = port.say(data)
    assert b"Traceback" not in answer
    assert b"Python" not in answer
    assert b"things_total" not in answer or data.endswith(b"colon at all")
    assert port.get("/healthz")[0] == 200


def test_a_peer_that_dawdles_is_cut_and_holds_no_one_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "CONNECTION_SECONDS", 0.3)
    port = Port()
    try:
        with port.connect() as slow:
            slow.sendall(b"GET /metrics HTTP/1.1\r\n")
            assert port.get("/healthz")[0] == 200
            # Each line starts a timeout of the socket's anew; what is cut is the connection.
            assert slow.recv(65_536) == b""
    finally:
        port.server.close()


def test_more_connections_than_are_served_are_hung_up_on_and_the_port_recovers(port: Port) -> None:
    idle = [port.connect() for _ in range(CONNECTIONS)]
    try:
        with port.connect() as beyond:
            assert beyond.recv(1) == b""
    finally:
        for peer in idle:
            peer.close()
    # Taken once those that left were noticed; a connection that is refused meanwhile is not an answer.
    while True:
        try:
            assert port.get("/healthz")[0] == 200
        except (OSError, urllib.error.URLError):
            continue
        break


def test_a_fault_in_a_check_is_told_without_particulars(port: Port, monkeypatch: pytest.MonkeyPatch) -> None:
    port.problems.clear()
    status, _, text = port.get("/readyz")
    assert status == 500
    assert "KeyError" not in text


def test_closing_ends_every_connection_and_frees_the_port(port: Port) -> None:
    with port.connect() as idle:
        # Connections are taken in order: once a later one was answered, this one was taken.
        assert port.get("/healthz")[0] == 200
        port.server.close()
        assert idle.recv(1) == b""
    port.server.close()
    again = AdminServer(port.address, CollectorRegistry(), alive=str, ready=str)
    assert again.open() == port.address
    again.close()


def test_an_address_that_is_taken_or_does_not_exist_is_a_plain_error(port: Port) -> None:
    with pytest.raises(OSError, match="address in use") as caught:
        AdminServer(port.address, CollectorRegistry(), alive=str, ready=str).open()
    assert (caught.value.errno, caught.value.filename) == (errno.EADDRINUSE, port.address)
    with pytest.raises(OSError, match="no such host"):
        AdminServer("no-such-host.invalid:0", CollectorRegistry(), alive=str, ready=str).open()


def test_it_listens_on_ipv6_too() -> None:
    server = AdminServer("[::1]:0", CollectorRegistry(), alive=str, ready=str)
    try:
        address = server.open()
    except OSError:
        pytest.skip("no IPv6 on this machine")
    with urllib.request.urlopen(f"http://{address}/healthz", timeout=10) as answer:
        assert answer.status == 200
    server.close()
