"""A signed token is taken when every claim holds and one of the operator's keys signed it, and in no other case."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from broker.auth.files import WatchedFile
from broker.auth.parts import Identified, Kind, Presented, Refused
from broker.auth.signed import ALGORITHMS, SignedTokens, parse_keys

NOW = 1_800_000_000.0
ISSUER, AUDIENCE = "https://issuer.example", "context-broker"

RSA = rsa.generate_private_key(65537, 2048)
STRANGER = rsa.generate_private_key(65537, 2048)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
PRIVATE: dict[str, Any] = {"rsa": RSA, "ec": EC, "ed": ED}


def jwk(key: Any, kid: str | None = None, **more: str) -> dict[str, Any]:
    algorithm: Any = {
        isinstance(key, rsa.RSAPrivateKey): jwt.algorithms.RSAAlgorithm,
        isinstance(key, ec.EllipticCurvePrivateKey): jwt.algorithms.ECAlgorithm,
        isinstance(key, ed25519.Ed25519PrivateKey): jwt.algorithms.OKPAlgorithm,
    }[True]
    made = algorithm.to_jwk(key.public_key(), as_dict=True)
    made.pop("key_ops", None)
    return {**made, **({} if kid is None else {"kid": kid}), **more}


KEYS = {"keys": [jwk(RSA, "rsa"), jwk(EC, "ec"), jwk(ED, "ed")]}


def part(folder: Path, keys: Any = None, **changed: Any) -> SignedTokens:
    file = folder / "jwks.json"
    file.write_text(json.dumps(KEYS if keys is None else keys))
    given = {"issuer": ISSUER, "audience": AUDIENCE, "algorithms": ("RS256", "ES256", "EdDSA"), "leeway": 0.0}
    return SignedTokens(WatchedFile(file, "auth.jwt.jwks_file", parse_keys), **{**given, **changed})


def claims(**changed: Any) -> dict[str, Any]:
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "me", "exp": int(NOW) + 60}
    return {key: value for key, value in {**good, **changed}.items() if value is not ...}


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(said: dict[str, Any] | None = None, kid: str | None = "rsa", alg: str = "RS256", **header: Any) -> str:
    key = PRIVATE.get(kid or "rsa", RSA)
    headers = {**({} if kid is None else {"kid": kid}), **header}
    return jwt.encode(claims() if said is None else said, key, alg, headers)


def by_hand(header: Any, payload: bytes, sign: Any) -> str:
    """A token as no honest library makes it."""
    signed = f"{b64(json.dumps(header).encode())}.{b64(payload)}"
    return f"{signed}.{b64(sign(signed.encode()))}"


def identify(known: SignedTokens, presented: str, now: float = NOW) -> Identified:
    return known.identify(Presented("c", (f"Bearer {presented}",)), now)


@pytest.mark.parametrize(("kid", "alg"), [("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")])
def test_a_good_token_names_its_subject_until_it_expires(tmp_path: Path, kid: str, alg: str) -> None:
    found = identify(part(tmp_path), token(kid=kid, alg=alg))
    assert found == Identified("me", frozenset({Kind.JWT}), NOW + 60)


def test_without_a_kid_the_only_key_is_meant_and_among_several_none(tmp_path: Path) -> None:
    assert identify(part(tmp_path, {"keys": [jwk(RSA)]}), token(kid=None)).subject == "me"
    with pytest.raises(Refused, match="no key"):
        identify(part(tmp_path), token(kid=None))


def test_an_audience_may_be_one_of_several(tmp_path: Path) -> None:
    assert identify(part(tmp_path), token(claims(aud=["other", AUDIENCE]))).subject == "me"


@pytest.mark.parametrize(
    "said",
    [
        claims(aud="other"),
        claims(aud=["other"]),
        claims(aud=[]),
        claims(aud=...),
        claims(aud=AUDIENCE.upper()),
        claims(iss="https://issuer.example.evil"),
        claims(iss=ISSUER + "/"),
        claims(iss=...),
        claims(iss=[ISSUER]),
        claims(exp=...),
        claims(exp=int(NOW)),
        claims(exp=int(NOW) - 1),
        claims(exp=None),
        claims(exp="never"),
        claims(exp=True),
        claims(exp=2**62),
        claims(exp=-1),
        claims(exp=[int(NOW) + 60]),
        claims(nbf=int(NOW) + 1),
        claims(nbf="soon"),
        claims(nbf=None),
        claims(sub=...),
        claims(sub=""),
        claims(sub=7),
        claims(sub=["me"]),
        claims(sub="two words"),
        claims(sub="x" * 600),
    ],
    ids=lambda said: ",".join(f"{key}={said.get(key, '-')!s:.30}" for key in ("aud", "iss", "exp", "nbf", "sub")),
)
def test_a_claim_that_is_missing_or_wrong_is_refused(tmp_path: Path, said: dict[str, Any]) -> None:
    known = part(tmp_path)
    payload = json.dumps(said).encode()
    from_library = jwt.api_jws.encode(payload, RSA, "RS256", {"kid": "rsa"})
    with pytest.raises(Refused):
        identify(known, from_library)


@pytest.mark.parametrize("payload", [b"1e400", b'{"exp": 1e400}', b"[]", b"null", b"\xff", b"{" * 5000, b""])
def test_a_payload_that_is_no_set_of_claims_is_refused(tmp_path: Path, payload: bytes) -> None:
    with pytest.raises(Refused):
        identify(part(tmp_path), jwt.api_jws.encode(payload, RSA, "RS256", {"kid": "rsa"}))


def test_infinity_is_no_time(tmp_path: Path) -> None:
    payload = json.dumps(claims()).replace(str(int(NOW) + 60), "1e400").encode()
    with pytest.raises(Refused):
        identify(part(tmp_path), jwt.api_jws.encode(payload, RSA, "RS256", {"kid": "rsa"}))


def test_leeway_moves_both_ends(tmp_path: Path) -> None:
    known = part(tmp_path, leeway=10.0)
    said = claims(exp=int(NOW) - 5, nbf=int(NOW) - 60)
    assert identify(known, token(said)).expires == NOW + 5
    assert identify(known, token(claims(nbf=int(NOW) + 5))).subject == "me"
    with pytest.raises(Refused, match="expired"):
        identify(known, token(claims(exp=int(NOW) - 10)))


def test_no_signature_is_no_signature(tmp_path: Path) -> None:
    payload = json.dumps(claims()).encode()
    for alg in ("none", "None", "NONE", "nOnE", ""):
        with pytest.raises(Refused):
            identify(part(tmp_path), by_hand({"alg": alg, "kid": "rsa"}, payload, lambda _: b""))
    header, body, _ = token().split(".")
    for wrong in (f"{header}.{body}.", f"{header}.{body}", f"{header}..", "..", f"{header}.{body}.AAAA", f".{body}."):
        with pytest.raises(Refused):
            identify(part(tmp_path), wrong)


@pytest.mark.parametrize("form", ["pem", "der", "jwk"])
@pytest.mark.parametrize("alg", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_no_secret(tmp_path: Path, alg: str, form: str) -> None:
    public = RSA.public_key()
    secret = {
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        "der": public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        "jwk": json.dumps(KEYS["keys"][0]).encode(),
    }[form]
    digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[alg]
    forged = by_hand(
        {"alg": alg, "kid": "rsa", "typ": "JWT"},
        json.dumps(claims()).encode(),
        lambda data: hmac.new(secret, data, digest).digest(),
    )
    with pytest.raises(Refused, match="algorithm is not allowed"):
        identify(part(tmp_path), forged)


@pytest.mark.parametrize("kid", ["ec", "ed"])
def test_a_key_of_another_kind_is_not_used(tmp_path: Path, kid: str) -> None:
    with pytest.raises(Refused, match="no key"):
        identify(part(tmp_path), jwt.encode(claims(), RSA, "RS256", {"kid": kid}))


def test_an_algorithm_that_the_operator_does_not_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="algorithm is not allowed"):
        identify(part(tmp_path, algorithms=("ES256",)), token())
    only = {"keys": [jwk(RSA, "rsa", alg="RS512")]}
    with pytest.raises(Refused, match="no key"):
        identify(part(tmp_path, only), token())


def test_a_stranger_signs_nothing(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="InvalidSignatureError"):
        identify(part(tmp_path), jwt.encode(claims(), STRANGER, "RS256", {"kid": "rsa"}))


@pytest.mark.parametrize(
    "kid", ["../../../etc/passwd", "/dev/null", "https://evil.example/keys", "' OR 1=1", "nope", ""]
)
def test_a_kid_picks_one_of_the_operators_keys_and_leads_nowhere(tmp_path: Path, kid: str) -> None:
    with pytest.raises(Refused, match="no key"):
        identify(part(tmp_path), jwt.encode(claims(), STRANGER, "RS256", {"kid": kid}))


@pytest.mark.parametrize("kid", [7, None, ["rsa"], {"a": 1}])
def test_a_kid_that_is_no_text_is_refused(tmp_path: Path, kid: Any) -> None:
    header = {"alg": "RS256", "kid": kid}
    with pytest.raises(Refused):
        identify(part(tmp_path), by_hand(header, json.dumps(claims()).encode(), lambda _: b"x" * 256))


def test_keys_that_a_token_brings_itself_are_not_read(tmp_path: Path) -> None:
    own = {
        "jwk": jwk(STRANGER, "rsa"),
        "jku": "https://evil.example/keys",
        "x5u": "file:///etc/passwd",
        "x5c": ["AAAA"],
    }
    with pytest.raises(Refused, match="InvalidSignatureError"):
        identify(part(tmp_path), jwt.encode(claims(), STRANGER, "RS256", {"kid": "rsa", **own}))


def test_an_extension_that_must_be_understood_is_refused(tmp_path: Path) -> None:
    payload = json.dumps(claims()).encode()

    def sign(data: bytes) -> bytes:
        return jwt.algorithms.RSAAlgorithm(jwt.algorithms.RSAAlgorithm.SHA256).sign(data, RSA)

    good = {"alg": "RS256", "kid": "rsa"}
    assert identify(part(tmp_path), by_hand(good, payload, sign)).subject == "me"
    for crit in (["exp"], ["b64"], []):
        with pytest.raises(Refused):
            identify(part(tmp_path), by_hand({**good, "crit": crit, "b64": False}, payload, sign))


def test_nothing_of_a_token_is_in_what_the_log_is_told(tmp_path: Path) -> None:
    forged = jwt.encode(claims(sub="a-secret-name"), STRANGER, "RS256", {"kid": "rsa"})
    with pytest.raises(Refused) as refused:
        identify(part(tmp_path), forged)
    assert str(refused.value) == "signed token: InvalidSignatureError"


@given(st.text(alphabet="abcXYZ019._-~+/", max_size=200), st.integers(0, 2))
def test_any_text_is_refused_and_never_a_fault(tmp_path_factory: pytest.TempPathFactory, text: str, dots: int) -> None:
    known = part(tmp_path_factory.getbasetemp())
    parts = token().split(".")
    parts[dots] = text
    with pytest.raises(Refused):
        identify(known, ".".join(parts))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("nothing", "not a JWKS"),
        ([], "not a JWKS"),
        ({}, "not a JWKS"),
        ({"keys": {}}, "not a JWKS"),
        ({"keys": [7]}, r"keys\[0\] is not a key"),
        ({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}, r"keys\[0\] holds a secret"),
        ({"keys": [{**jwk(RSA), "d": "AQAB"}]}, "holds a secret"),
        ({"keys": [jwk(RSA, use="enc")]}, "use is 'enc'"),
        ({"keys": [jwk(RSA, alg="HS256")]}, "kty, crv and alg fit none"),
        ({"keys": [jwk(EC, alg="ES384")]}, "kty, crv and alg fit none"),
        ({"keys": [{**jwk(EC), "crv": "secp256k1"}]}, "kty, crv and alg fit none"),
        ({"keys": [{"kty": "RSA", "n": "AQAB"}]}, "cannot be used as a key"),
        ({"keys": [jwk(RSA), jwk(EC, "ec")]}, "each needs a kid of its own"),
        ({"keys": [jwk(RSA, "one"), jwk(EC, "one")]}, "each needs a kid of its own"),
        ({"keys": [jwk(rsa.generate_private_key(65537, 1024))]}, "has 1024 bits"),
    ],
)
def test_keys_that_cannot_be_used_are_refused_with_their_place(keys: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_keys(json.dumps(keys).encode())


def test_no_listed_algorithm_is_symmetric() -> None:
    assert not any(name.startswith("HS") or name.lower() == "none" for name in ALGORITHMS)


def test_a_set_without_keys_takes_no_token(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no key"):
        identify(part(tmp_path, {"keys": []}), token())
