"""The one URI of the subject alternative name is who a certificate's holder is; its common name is never read."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from broker.auth.certificates import Certificates
from broker.auth.parts import Kind, Presented, Refused
from tests.authority import Authority

SELF = "spiffe://example.org/self"


def holding(authority: Authority, **how: object) -> Presented:
    return Presented("c", (), authority.issue("client", **how)[0].read_bytes())


def test_the_one_uri_is_the_subject_whatever_the_common_name_says(tmp_path: Path) -> None:
    presented = holding(Authority(tmp_path), uris=[SELF], common_name="victim")
    found = Certificates().identify(presented, time.time())
    assert (found.subject, found.by) == (SELF, {Kind.MTLS})
    assert found.expires == pytest.approx(time.time() + 3600, abs=60)


@pytest.mark.parametrize("uris", [[], [SELF, "spiffe://example.org/victim"], [SELF, SELF]], ids=["none", "two", "same"])
def test_no_uri_or_more_than_one_is_no_one(tmp_path: Path, uris: list[str]) -> None:
    with pytest.raises(Refused, match=f"has {len(uris)} URI names"):
        Certificates().identify(holding(Authority(tmp_path), uris=uris, common_name="victim"), time.time())


@pytest.mark.parametrize("shift", [timedelta(hours=-2), timedelta(hours=2)], ids=["before", "after"])
def test_a_certificate_of_another_time_is_no_one_though_its_connection_stands(tmp_path: Path, shift: timedelta) -> None:
    presented = holding(Authority(tmp_path), uris=[SELF])
    with pytest.raises(Refused, match="expired or not valid yet"):
        Certificates().identify(presented, time.time() + shift.total_seconds())


@pytest.mark.parametrize("pem", [b"", b"nothing", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_no_one(pem: bytes) -> None:
    with pytest.raises(Refused):
        Certificates().identify(Presented("c", (), pem), 0.0)


def test_names_of_a_kind_that_cannot_be_read_are_no_one() -> None:
    """An X.400 address, which the reader of certificates knows of and does not take."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "self")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.UnrecognizedExtension(x509.ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"\x30\x02\xa3\x00"), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    with pytest.raises(Refused, match="cannot be read"):
        Certificates().identify(Presented("c", (), certificate.public_bytes(Encoding.PEM)), now.timestamp())


def test_a_uri_that_cannot_be_a_subject_is_no_one(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no subject"):
        Certificates().identify(holding(Authority(tmp_path), uris=["spiffe://a/" + "x" * 600]), time.time())
