"""TLS of the server: certificates are checked at the start, and read again when their files change."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import structlog
from cryptography import x509

from broker.errors import ConfigError
from broker.rpc.credentials import content, private
from broker.settings import Server

log = structlog.get_logger("broker.rpc")


def server_credentials(server: Server, now: Callable[[], float] = time.time) -> grpc.ServerCredentials | None:
    """What TLS needs; None where it is off. With ``tls_client_ca`` no connection stands without a client's certificate.

    Raises:
        ConfigError: A file cannot be read, the key is readable by all, the two do not belong together, or a
            certificate is expired or not valid yet.
    """
    if server.tls_cert is None or server.tls_key is None:
        return None
    certificates = _Certificates(server.tls_cert, server.tls_key, server.tls_client_ca, now)
    return grpc.dynamic_ssl_server_credentials(
        certificates.load(),
        # None stands for no change, which the stubs leave out.
        certificates.fetch,  # type: ignore[arg-type]
        require_client_authentication=server.tls_client_ca is not None,
    )


class _Certificates:
    """The files, and what they held when they were last of use."""

    def __init__(self, cert: Path, key: Path, client_ca: Path | None, now: Callable[[], float]) -> None:
        self._cert = cert
        self._key = key
        self._client_ca = client_ca
        self._now = now
        self._seen = self._signature()

    def load(self) -> grpc.ServerCertificateConfiguration:
        """Reads and checks them.

        Raises:
            ConfigError: As :func:`server_credentials`.
        """
        key = private(self._key, "server.tls_key")
        chain = content(self._cert, "server.tls_cert")
        try:
            # grpc says nothing of a wrong pair until the port is opened, and then not what was wrong.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._cert, self._key)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise ConfigError(
                f"server.tls_cert {self._cert} and server.tls_key {self._key} cannot be used together: {error}"
            ) from None
        self._check(chain, self._cert, "server.tls_cert")
        roots = None
        if self._client_ca is not None:
            roots = content(self._client_ca, "server.tls_client_ca")
            self._check(roots, self._client_ca, "server.tls_client_ca")
        return grpc.ssl_server_certificate_configuration([(key, chain)], roots)

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """For each new connection, in a thread of grpc's: what to use from now on; None: what was used before.

        Files that cannot be used change nothing, and are told of once: a certificate may be there before its key is.
        """
        now = self._signature()
        if now == self._seen:
            return None
        self._seen = now
        try:
            loaded = self.load()
        except ConfigError as wrong:
            log.error("certificates changed and cannot be used; those read before stay", problem=str(wrong))  # noqa: TRY400
            return None
        log.info("certificates were read again")
        return loaded

    def _check(self, pem: bytes, file: Path, key: str) -> None:
        """Refuses certificates that hold at another time than now.

        Raises:
            ConfigError: There is none, or one is expired or not valid yet.
        """
        try:
            found = x509.load_pem_x509_certificates(pem)
        except ValueError:
            raise ConfigError(f"{key}: {file} holds no certificate in PEM") from None
        now = self._now()
        for certificate in found:
            begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
            if now >= ends.timestamp():
                raise ConfigError(f"{key}: a certificate in {file} expired at {ends:%Y-%m-%dT%H:%M:%SZ}; renew it")
            if now < begins.timestamp():
                raise ConfigError(f"{key}: a certificate in {file} is not valid before {begins:%Y-%m-%dT%H:%M:%SZ}")

    def _signature(self) -> tuple[tuple[int, ...] | None, ...]:
        files = (self._cert, self._key, *(() if self._client_ca is None else (self._client_ca,)))
        return tuple(map(_changed, files))


def _changed(file: Path) -> tuple[int, ...] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
