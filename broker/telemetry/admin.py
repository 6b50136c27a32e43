"""The HTTP port for whoever runs the broker: ``/metrics``, ``/healthz`` and ``/readyz``.

It is served from threads of its own, so that neither a scrape nor a peer that dawdles takes the event loop's time, and
an event loop that hangs can be told of. It asks no one for a credential, takes nothing but GET, and is for a network
that operators alone can reach.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import MetricsHandler

CONNECTIONS = 16
"""Open at once; whoever comes while so many are open is hung up on."""

CONNECTION_SECONDS = 10.0
"""How long a connection may last, whatever it does; a scrape takes some milliseconds."""

POLL_SECONDS = 0.1
"""How often connections are looked at, and how long a stop may take."""

Check = Callable[[], str]
"""Why something is not so; empty: it is. Called from any thread."""

log = structlog.get_logger("broker.telemetry")


class AdminServer:
    """The port. Open it once, close it once.

    Attributes:
        address: ``host:port`` once open; empty before.
    """

    def __init__(self, listen: str, registry: CollectorRegistry, *, alive: Check, ready: Check) -> None:
        """Opens nothing yet.

        Args:
            listen: ``host:port``; port 0 takes a free one.
            registry: What ``/metrics`` shows.
            alive: Why the process should be started anew, for ``/healthz``.
            ready: Why it takes no new requests, for ``/readyz``.
        """
        self.address = ""
        self._listen = listen
        self._registry = registry
        self._checks = {"/healthz": alive, "/readyz": ready}
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> str:
        """Binds the address and serves; the address, with the port that was bound.

        Raises:
            OSError: It cannot be bound; ``EADDRINUSE`` where it is taken.
        """
        registry, checks = self._registry, self._checks

        class Handler(_Handler):
            """Serves this port."""

        Handler.registry, Handler.checks = registry, checks
        host, _, port = self._listen.rpartition(":")
        try:
            family, *_, place = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
            self._server = _Server(family, place, Handler)
        except socket.gaierror:
            raise OSError(errno.EADDRNOTAVAIL, "there is no such host", self._listen) from None
        except OSError as error:
            taken = "address in use: something else listens there; choose another admin.listen"
            text = taken if error.errno == errno.EADDRINUSE else error.strerror
            raise OSError(error.errno, text, self._listen) from None
        self.address = f"{host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_SECONDS,), name="admin", daemon=True
        )
        self._thread.start()
        return self.address

    def close(self) -> None:
        """Closes it and every connection; takes up to :data:`POLL_SECONDS`. Idempotent."""
        server, self._server = self._server, None
        if server is not None and self._thread is not None:
            server.shutdown()
            self._thread.join()
            server.cut(older_than=0.0)
            server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = CONNECTIONS

    def __init__(self, family: int, place: Any, handler: type[_Handler]) -> None:
        self.address_family = family
        # Connection by the moment that it was taken at; the threads that serve them take theirs out.
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(place, handler)

    def server_bind(self) -> None:
        # HTTPServer's own asks the network what the host is called, which can take seconds, and nobody needs to know.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            full = len(self._open) >= CONNECTIONS
            if not full:
                self._open[request] = time.monotonic()
        if full:
            self.shutdown_request(request)
        else:
            super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        self.cut(older_than=CONNECTION_SECONDS)

    def cut(self, *, older_than: float) -> None:
        """Ends connections of so many seconds or more, whatever their threads wait for."""
        now = time.monotonic()
        with self._lock:
            for connection, since in self._open.items():
                if now - since >= older_than:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A peer that is gone; faults of the broker's own are seen to where they happen.
        pass


class _Handler(MetricsHandler):
    checks: dict[str, Check]
    timeout = CONNECTION_SECONDS
    server_version = "context-broker"
    sys_version = ""
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        path = self.path.partition("?")[0]
        try:
            if path == "/metrics":
                super().do_GET()
            elif path in self.checks:
                problem = self.checks[path]()
                self._say(503 if problem else 200, problem or "ok")
            else:
                self._say(404, "there are /metrics, /healthz and /readyz")
        except OSError:
            raise
        except Exception as fault:  # noqa: BLE001 - the caller is to hear that there was one, and no more
            log.error("a fault in the admin port", path=path[:64], kind=type(fault).__name__)  # noqa: TRY400
            self._say(500, "the broker failed; its log says more")

    def _say(self, code: int, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
