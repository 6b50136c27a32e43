"""A certificate authority of the tests' own."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class Authority:
    """Issues certificates into a folder.

    Attributes:
        ca: File of its own certificate.
    """

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        own = _builder(self._name, self._name, self._key).add_extension(constraints, critical=True)
        self.ca = folder / f"{name.replace(' ', '-')}.pem"
        self.ca.write_bytes(own.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))

    def issue(
        self,
        file: str,
        *,
        uris: Sequence[str] = (),
        common_name: str = "",
        begins: timedelta = timedelta(hours=-1),
        ends: timedelta = timedelta(hours=1),
    ) -> tuple[Path, Path]:
        """A certificate for localhost and for these URIs, and its key, in ``file.pem`` and ``file.key``."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
        names += [x509.UniformResourceIdentifier(uri) for uri in uris]
        builder = _builder(_named(common_name), self._name, key, begins, ends)
        signed = builder.add_extension(x509.SubjectAlternativeName(names), critical=False).sign(
            self._key, hashes.SHA256()
        )
        cert_file, key_file = self._folder / f"{file}.pem", self._folder / f"{file}.key"
        cert_file.write_bytes(signed.public_bytes(Encoding.PEM))
        key_file.touch(mode=0o600)
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return cert_file, key_file


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else [])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begins: timedelta = timedelta(days=-1),
    ends: timedelta = timedelta(days=1),
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins)
        .not_valid_after(now + ends)
    )
