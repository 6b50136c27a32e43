"""Client certificates: the one URI of the subject alternative name is the subject. The common name is never read."""

from __future__ import annotations

from functools import lru_cache

from cryptography import x509

from broker.auth.parts import Identified, Kind, Presented, Refused
from broker.auth.tokens import check_subject


class Certificates:
    """Knows a caller by the certificate that TLS has verified against ``server.tls_client_ca``."""

    def identify(self, presented: Presented, now: float, /) -> Identified:
        """See :class:`~broker.auth.parts.Part`."""
        if not presented.certificate:
            raise Refused("no client certificate")
        subject, begins, ends = _read(presented.certificate)
        # TLS looked at these when the connection began, which may be long ago.
        if not begins <= now < ends:
            raise Refused("client certificate expired or not valid yet")
        return Identified(subject, frozenset({Kind.MTLS}), ends)


@lru_cache(maxsize=4096)
def _read(pem: bytes) -> tuple[str, float, float]:
    """Subject, begin and end of a certificate; times in seconds since the epoch.

    Raises:
        Refused: It names none, or more than one.
    """
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    except x509.ExtensionNotFound:
        uris = []
    except (ValueError, x509.DuplicateExtension, x509.UnsupportedGeneralNameType) as wrong:
        raise Refused(f"client certificate cannot be read: {type(wrong).__name__}") from None
    if len(uris) != 1:
        raise Refused(f"client certificate has {len(uris)} URI names, and must have one")
    try:
        check_subject(uris[0])
    except ValueError:
        raise Refused("client certificate's URI is no subject") from None
    return uris[0], certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()
