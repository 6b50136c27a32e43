"""A caller is who its credential says: what that may not do is refused alike, and ends while it runs once it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace

import grpc
import grpc.aio
import jwt
import pytest
from contextbroker.v1 import context_service_pb2 as pb
from contextbroker.v1 import operator_service_pb2
from cryptography.hazmat.primitives.asymmetric import ec
from structlog.testing import capture_logs

from broker.auth.caller import Caller, Role
from broker.auth.methods import ROLES as METHOD_ROLES
from broker.auth.parts import Presented, Refused
from broker.client.channel import send
from broker.config import Config
from broker.errors import PermissionDenied, Unauthenticated
from broker.rpc import callers
from broker.rpc.server import Broker
from broker.wire.events import Hello
from broker.wire.pushes import PushHeader, push_header, push_part
from broker.wire.sessions import attach_request
from tests.authority import Authority
from tests.raw.http2 import RawClient, message, request_headers
from tests.rpc.identities import PRINCIPALS, Identities, Known, bearer, shown, token_of
from tests.rpc.peers import ATTACH, COMPOSE, PUSH, SAFETY, Answer, Peer, compose_bytes, encoded, frames, lanes, rows

CONTEXT = "/contextbroker.v1.ContextService"
OPERATOR = "/contextbroker.v1.OperatorService"
HEALTH = "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"

CALLS: dict[str, tuple[str, tuple[bytes, ...]]] = {
    "Compose": (COMPOSE, (compose_bytes(),)),
    "ListProviders": (f"{CONTEXT}/ListProviders", (b"",)),
    "ListStrategies": (f"{CONTEXT}/ListStrategies", (b"",)),
    "GetComposition": (
        f"{CONTEXT}/GetComposition",
        (pb.GetCompositionRequest(composition_id="0").SerializeToString(),),
    ),
    "ListCompositions": (f"{CONTEXT}/ListCompositions", (b"",)),
    "ReportAttribution": (f"{CONTEXT}/ReportAttribution", (b"",)),
    "Attach": (ATTACH, (attach_request(Hello("search", "one")),)),
    "Push": (PUSH, (push_header(PushHeader("search", "r")), push_part(encoded(frames(("a", 0.5)))))),
    "QuarantineProvider": (
        f"{OPERATOR}/QuarantineProvider",
        (operator_service_pb2.QuarantineProviderRequest(provider_id="none", seconds=1).SerializeToString(),),
    ),
    "ReleaseProvider": (
        f"{OPERATOR}/ReleaseProvider",
        (operator_service_pb2.ReleaseProviderRequest(provider_id="none").SerializeToString(),),
    ),
    "Reflection": (REFLECTION, (b"",)),
}
"""A call of each method but DrainBroker, which would end the broker that it succeeds on."""


@pytest.fixture
def identities(tmp_path: Path) -> Identities:
    return Identities(tmp_path)


@pytest.fixture
def broker_config(identities: Identities) -> Config:
    return identities.config()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the broker look at its files as often as it can, so that no test waits for it."""
    monkeypatch.setattr(callers, "POLL_SECONDS", 0.02)


@pytest.fixture
def looks(quick: None, monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[bool]:
    """Gets whether files had changed, each time that the broker has looked at them and judged what runs."""
    found: asyncio.Queue[bool] = asyncio.Queue()
    review = callers.Callers.review

    async def noted(self: callers.Callers, *, changed: bool) -> None:
        await review(self, changed=changed)
        found.put_nowait(changed)

    monkeypatch.setattr(callers.Callers, "review", noted)
    return found


@pytest.fixture
async def known(broker: Broker) -> AsyncIterator[Callable[[str], Known]]:
    """Makes clients of subjects, each with a connection of its own."""
    channels: list[grpc.aio.Channel] = []

    def make(subject: str) -> Known:
        channel = grpc.aio.insecure_channel(broker.address, options=[("grpc.use_local_subchannel_pool", 1)])
        channels.append(channel)
        return Known(channel, bearer(subject))

    yield make
    for channel in channels:
        await channel.close()


def said(answer: Answer) -> tuple[object, ...]:
    """All that a caller learns from an answer."""
    assert answer.error is not None
    return (answer.error.code, answer.error.reason, answer.error.message, answer.details, answer.messages)


# Who may call what.


def test_there_is_a_call_of_every_method() -> None:
    assert CALLS.keys() | {"DrainBroker", "GetProviderStatistics"} == METHOD_ROLES.keys()


async def test_each_role_may_call_its_methods_and_no_others(known: Callable[[str], Known]) -> None:
    subjects = {Role.PROVIDER: "search", Role.ORCHESTRATOR: "asks", Role.OPERATOR: "runs"}
    denied: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for role, subject in subjects.items():
        peer = known(subject)
        for method, (path, messages) in CALLS.items():
            answer = await peer.call(path, *messages)
            may = role in METHOD_ROLES[method]
            assert isinstance(answer.error, PermissionDenied) is not may, (role, method, answer.error)
            if not may:
                denied[method].add(said(answer)[:3])
    for method, texts in denied.items():
        # Whoever it is that may not: the refusal tells what the method needs, and nothing of who asked.
        ((_, reason, message),) = texts
        assert reason == "METHOD"
        assert message.startswith(f"{method} needs the role ")
        assert {role for role in Role if repr(role.value) in message} == METHOD_ROLES[method]


async def test_without_a_credential_nothing_is_answered_but_health(broker: Broker, peer: Peer) -> None:
    refused = {said(await peer.call(path, *messages))[:3] for path, messages in CALLS.values()}
    ((code, reason, _),) = refused
    assert (code, reason) == ("UNAUTHENTICATED", "CREDENTIALS")
    health = await peer.call(HEALTH, b"")
    assert (health.error, health.messages) == (None, [b"\x08\x01"])


async def test_a_method_that_is_not_there_is_told_the_same_with_and_without_a_credential(
    peer: Peer, known: Callable[[str], Known]
) -> None:
    for path in (f"{CONTEXT}/NoSuch", COMPOSE.upper(), f"{COMPOSE}/", "/x/y"):
        answers = [await each.call(path, b"") for each in (peer, known("asks"))]
        assert [answer.error and answer.error.code for answer in answers] == ["UNIMPLEMENTED"] * 2


WRONG = {
    "none": (),
    "empty": ("",),
    "scheme alone": ("bearer",),
    "two": (f"Bearer {token_of('asks')}", f"Bearer {token_of('asks')}"),
    "good and empty": (f"Bearer {token_of('asks')}", ""),
    "unknown": (f"Bearer {'x' * 40}",),
    "short": ("Bearer x",),
    "no principal": (f"Bearer {token_of('nobody')}",),
    "other scheme": (f"Basic {token_of('asks')}",),
    "no scheme": (token_of("asks"),),
    "15 kB": (f"Bearer {'x' * 15_000}",),
    "its subject": ("Bearer asks",),
    "NUL": (f"Bearer {token_of('asks')}\0",),
    "CR LF": (f"Bearer {token_of('asks')}\r\n",),
    "ESC": (f"Bearer \x1b[31m{token_of('asks')}",),
    "latin": (f"Bearer {token_of('asks')}\xe9",),
    "comma": (f"Bearer {token_of('asks')}, Bearer {token_of('asks')}",),
}


async def test_every_wrong_credential_has_one_answer_and_none_is_in_the_log(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    answers = set()
    with capture_logs() as logs:
        async with RawClient.connect(broker.address) as raw:
            for values in WRONG.values():
                headers = request_headers(COMPOSE, *(("authorization", value) for value in values))
                outcome = await raw.call(headers, message(compose_bytes()))
                answers.add((outcome.status, outcome.reason, outcome.error.message, tuple(sorted(outcome.headers))))
            good = request_headers(f"{CONTEXT}/ListProviders", ("authorization", f"bearer {token_of('asks')}"))
            assert (await raw.call(good, message(b""))).status == "OK"
    ((status, reason, _, _),) = answers
    assert (status, reason) == ("UNAUTHENTICATED", "CREDENTIALS")
    refused = [entry for entry in logs if entry["event"] == "credential refused"]
    assert len(refused) == len(WRONG)
    assert all(entry["method"] == "Compose" and entry["connection"] for entry in refused)
    assert all(len(entry["credential"]) == 8 for entry in refused[1:])
    assert "token-of" not in repr(logs)
    # grpc itself would write down what is not UTF-8, with a traceback.
    assert [record for record in caplog.records if record.name.startswith("grpc")] == []
    assert {entry["why"] for entry in refused} >= {"no authorization", "token unknown", "the subject has no principal"}


# Identity comes from the credential, never from the message.


async def test_no_one_speaks_for_a_provider_that_its_credential_does_not_name(known: Callable[[str], Known]) -> None:
    victim = await known("search").attach("search")
    intruder, asks = known("self"), known("asks")
    for name in ("search", "nowhere"):
        answers = [
            await intruder.call(ATTACH, attach_request(Hello(name, "one"))),
            await intruder.call(PUSH, push_header(PushHeader(name, "r")), push_part(encoded(frames(("a", 0.5))))),
        ]
        for answer in answers:
            assert isinstance(answer.error, PermissionDenied)
            assert answer.error.reason == "PROVIDER_NOT_ALLOWED"
            assert answer.error.message.replace(name, "*") == answers[0].error.message.replace(name, "*")  # type: ignore[union-attr]
    composing = await asks.composing(providers=["search"])
    await victim.answer(frames(("v", 0.5)))
    assert lanes((await composing.rest()).composition()) == {"search": "COMPLETE"}
    assert set(await asks.providers()) == {"search"}


async def test_a_second_hello_cannot_change_who_one_is(known: Callable[[str], Known]) -> None:
    attached = await known("search").attach("search")
    await attached.say(Hello("self", "one"))
    ended = await attached.ended()
    assert isinstance(ended, PermissionDenied)
    assert ended.reason == "PROVIDER_NOT_ALLOWED"


# Credentials that end.


async def a_lane_of(attached: object, asks: Peer) -> object:
    composing = await asks.composing(providers=["search"], collect_timeout=SAFETY)
    await attached.hear_ask()  # type: ignore[attr-defined]
    return composing


@pytest.mark.parametrize("change", ["revoked", "no principal", "other role", "other tenant", "other names"])
async def test_a_session_ends_when_its_credential_does_and_its_lanes_fail(
    quick: None, identities: Identities, known: Callable[[str], Known], change: str
) -> None:
    asks = known("asks")
    attached = await known("search").attach("search")
    composing = await a_lane_of(attached, asks)
    changed = {
        "no principal": {name: text for name, text in PRINCIPALS.items() if name != "search"},
        "other role": PRINCIPALS | {"search": 'tenant = "blue"\nrole = "orchestrator"'},
        "other tenant": PRINCIPALS | {"search": PRINCIPALS["search"].replace("blue", "red")},
        "other names": PRINCIPALS | {"search": 'tenant = "blue"\nrole = "provider"\nproviders = ["files"]'},
    }
    if change == "revoked":
        identities.tokens(*(name for name in PRINCIPALS if name != "search"))
    else:
        identities.principals(changed[change])
    ended = await attached.ended()
    assert isinstance(ended, Unauthenticated)
    assert ended.reason == "CREDENTIALS"
    answer = await composing.rest()  # type: ignore[attr-defined]
    assert answer.error is not None
    assert answer.error.code == "UNAVAILABLE"
    assert "FAILED" in answer.error.message or "credential" in answer.error.message
    assert (await asks.providers())["search"].instances == ()


async def test_what_a_credential_gains_or_keeps_ends_nothing(
    looks: asyncio.Queue[bool], identities: Identities, known: Callable[[str], Known]
) -> None:
    asks = known("asks")
    attached = await known("search").attach("search")
    composing = await a_lane_of(attached, asks)
    more = PRINCIPALS["search"].replace('"files"', '"files", "more"')
    gone = {name: text for name, text in PRINCIPALS.items() if name != "runs"}
    identities.principals(gone | {"search": more})
    async with asyncio.timeout(SAFETY):
        while not await looks.get():
            pass
    assert isinstance((await known("runs").call(f"{CONTEXT}/ListProviders", b"")).error, Unauthenticated)
    assert not attached.call.done()
    composing.call.cancel()  # type: ignore[attr-defined]


async def test_who_watches_health_without_a_credential_goes_on_when_files_change(
    looks: asyncio.Queue[bool], identities: Identities, peer: Peer
) -> None:
    call = peer.open("/grpc.health.v1.Health/Watch")
    await send(call, b"")
    await call.done_writing()
    first = await call.read()
    identities.tokens("asks")
    while not await looks.get():
        pass
    assert not call.done()
    call.cancel()
    assert first == b"\x08\x01"


async def test_one_that_cannot_be_judged_ends_and_keeps_no_other_from_being_judged() -> None:
    """Revocation must not stop at the first credential that something goes wrong with."""
    asks = Caller("blue", "asks", frozenset({Role.ORCHESTRATOR}), (), "ipv4:127.0.0.1:1")

    class Judge:
        revoked = False

        def caller(self, presented: Presented, now: float) -> tuple[Caller, float | None]:
            if self.revoked and presented.connection == "strange":
                raise RuntimeError("no one thought of this")
            if self.revoked:
                raise Refused("revoked")
            return asks, None

    judge = Judge()
    under_test = callers.Callers(judge)  # type: ignore[arg-type]
    began, ended = asyncio.Queue[str](), list[str]()

    async def run(connection: str) -> None:
        admission = callers.Admission(asks, "Compose", Presented(connection), None)
        stream = SimpleNamespace(disowned=False, claims=())
        watching = under_test.watching(admission, stream)  # type: ignore[arg-type]
        with contextlib.suppress(Unauthenticated), watching:
            began.put_nowait(connection)
            await asyncio.Event().wait()
        ended.append(connection)

    running = [asyncio.create_task(run(connection)) for connection in ("strange", "usual")]
    for _ in running:
        await began.get()
    judge.revoked = True
    await under_test.review(changed=True)
    await asyncio.wait_for(asyncio.gather(*running), SAFETY)
    assert sorted(ended) == ["strange", "usual"]


@pytest.mark.parametrize("change", ["revoked", "other role"])
async def test_a_request_ends_when_its_credential_does_and_its_providers_hear_of_it(
    quick: None, identities: Identities, known: Callable[[str], Known], change: str
) -> None:
    attached = await known("search").attach("search")
    composing = await a_lane_of(attached, known("asks"))
    if change == "revoked":
        identities.tokens("search")
    else:
        identities.principals(PRINCIPALS | {"asks": 'tenant = "blue"\nrole = "operator"'})
    answer = await composing.rest()  # type: ignore[attr-defined]
    assert isinstance(answer.error, Unauthenticated)
    cancelled = await attached.hear()
    assert type(cancelled).__name__ == "Cancel"


async def test_a_file_that_cannot_be_used_ends_nothing_and_is_told_loudly(
    looks: asyncio.Queue[bool], identities: Identities, known: Callable[[str], Known]
) -> None:
    attached = await known("search").attach("search")
    with capture_logs() as logs:
        identities.tokens_file.write_text("this is no tokens file\n")
        async with asyncio.timeout(SAFETY):
            while not [entry for entry in logs if entry["log_level"] == "error"]:
                await looks.get()
    assert "auth.tokens_file" in repr(logs)
    assert not attached.call.done()
    identities.tokens(*PRINCIPALS)


# Signed tokens.


class Issuer:
    """An issuer of signed tokens, and the section of a broker that takes them."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.jwks = folder / "jwks.json"
        self.write(self._key)

    def write(self, key: ec.EllipticCurvePrivateKey) -> None:
        public = jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True)
        self.jwks.write_text(json.dumps({"keys": [{**public, "kid": "one"}]}))

    def section(self) -> dict[str, object]:
        return {"jwks_file": self.jwks, "issuer": "i", "audience": "broker"}

    def bearer(self, subject: str, **changed: object) -> tuple[tuple[str, str], ...]:
        said = {"iss": "i", "aud": "broker", "sub": subject, "exp": int(time.time()) + 3600, **changed}
        return (("authorization", f"Bearer {jwt.encode(said, self._key, 'ES256', {'kid': 'one'})}"),)


async def test_an_expired_token_ends_what_runs_under_it(quick: None, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    identities = Identities(tmp_path, by=["jwt"])
    auth = {"policy": "jwt", "principals_file": identities.principals_file, "jwt": issuer.section()}
    broker = Broker(identities.config(auth=auth))
    address = await broker.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            short = issuer.bearer("search", exp=int(time.time()) + 2)
            attached = await Known(channel, short).attach("search")
            composing = await a_lane_of(attached, Known(channel, issuer.bearer("asks")))
            assert isinstance(await attached.ended(), Unauthenticated)
            assert (await composing.rest()).error.code == "UNAVAILABLE"  # type: ignore[attr-defined]
            assert isinstance((await Known(channel, short).call(COMPOSE, compose_bytes())).error, Unauthenticated)
            # A new set of keys revokes what the old ones signed.
            attached = await Known(channel, issuer.bearer("search")).attach("search")
            issuer.write(ec.generate_private_key(ec.SECP256R1()))
            assert isinstance(await attached.ended(), Unauthenticated)
    finally:
        await broker.stop(grace=0.0)


async def test_every_wrong_signed_token_has_the_answer_of_every_wrong_token(tmp_path: Path) -> None:
    issuer, other = Issuer(tmp_path), Issuer(tmp_path / "..")
    issuer.write(issuer._key)
    identities = Identities(tmp_path, by=["tokens", "jwt"])
    auth = identities.auth(policy={"any": ["tokens", "jwt"]}, jwt=issuer.section())
    broker = Broker(identities.config(auth=auth))
    address = await broker.start()
    now = int(time.time())
    wrong = [{"aud": "x"}, {"iss": "x"}, {"exp": now - 1}, {"nbf": now + 60}, {"sub": "nobody"}, {"exp": None}]
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            answers = [
                said(await shown(Peer(channel), COMPOSE, compose_bytes(), metadata=metadata))
                for metadata in (
                    *(issuer.bearer("asks", **changed) for changed in wrong),
                    other.bearer("asks"),
                    bearer("unknown"),
                    (),
                )
            ]
            assert len({str(answer) for answer in answers}) == 1
            for good in (issuer.bearer("asks"), bearer("asks")):
                assert await Known(channel, good).providers() == {}
    finally:
        await broker.stop(grace=0.0)


# Certificates.


async def test_the_uri_of_a_certificate_is_who_its_holder_is(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identities = Identities(tmp_path, by=["mtls"])
    me, victim = "spiffe://test/self", "spiffe://test/victim"
    role = 'role = "provider"\nproviders = ["{}"]'
    identities.principals({me: role.format("self"), victim: role.format("victim")})
    cert, key = authority.issue("server")
    server = {"listen": "127.0.0.1:0", "tls_cert": cert, "tls_key": key, "tls_client_ca": authority.ca}
    auth = {"policy": "mtls", "principals_file": identities.principals_file}
    broker = Broker(Config(server=server, auth=auth))
    address = await broker.start()
    hold = {
        "self": authority.issue("a", uris=[me], common_name=victim),
        "two": authority.issue("b", uris=[me, victim]),
        "none": authority.issue("c", common_name=victim),
        "unknown": authority.issue("d", uris=["spiffe://test/else"]),
    }
    outcomes = {}
    try:
        for name, (own, its_key) in hold.items():
            credentials = grpc.ssl_channel_credentials(
                authority.ca.read_bytes(), its_key.read_bytes(), own.read_bytes()
            )
            async with grpc.aio.secure_channel(address, credentials) as channel:
                for provider in ("self", "victim"):
                    # What is claimed beside the certificate says nothing.
                    metadata = (("x-forwarded-client-cert", f"URI={victim}"), ("x-spiffe-id", victim))
                    call = Peer(channel).open(ATTACH, metadata=metadata)
                    await send(call, attach_request(Hello(provider, "one")))
                    with contextlib.suppress(grpc.aio.AioRpcError):
                        if await call.read() is not grpc.aio.EOF:
                            outcomes[name, provider] = "attached"
                            call.cancel()
                            continue
                    outcomes[name, provider] = (await call.code()).name
    finally:
        await broker.stop(grace=0.0)
    refused = {(name, provider): "UNAUTHENTICATED" for name in hold for provider in ("self", "victim")}
    assert outcomes == refused | {("self", "self"): "attached", ("self", "victim"): "PERMISSION_DENIED"}


async def test_a_token_that_is_bound_to_a_certificate_is_worth_nothing_without_it(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identities = Identities(tmp_path, by=["mtls", "tokens"])
    cert, key = authority.issue("server")
    server = {"listen": "127.0.0.1:0", "tls_cert": cert, "tls_key": key, "tls_client_ca": authority.ca}
    broker = Broker(Config(server=server, auth=identities.auth(policy={"all": ["mtls", "tokens"]})))
    address = await broker.start()
    own, thief = authority.issue("own", uris=["asks"]), authority.issue("thief", uris=["search"])
    codes = {}
    try:
        for name, (its_cert, its_key) in (("own", own), ("thief", thief)):
            parts = (authority.ca.read_bytes(), its_key.read_bytes(), its_cert.read_bytes())
            async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(*parts)) as channel:
                for token in ("asks", ""):
                    metadata = bearer(token) if token else ()
                    answer = await shown(Peer(channel), f"{CONTEXT}/ListProviders", b"", metadata=metadata)
                    codes[name, token] = answer.error.code if answer.error else "OK"
    finally:
        await broker.stop(grace=0.0)
    assert codes == {
        ("own", "asks"): "OK",
        ("own", ""): "UNAUTHENTICATED",
        ("thief", "asks"): "UNAUTHENTICATED",
        ("thief", ""): "UNAUTHENTICATED",
    }


async def test_a_placed_frame_is_credited_to_the_credential_that_sent_it(known: Callable[[str], Known]) -> None:
    """What a push names as provider must be allowed, and then joins the lane of that name in its own tenant alone."""
    asks, red = known("asks"), known("red-asks")
    await known("red-search").push("search", "shared-id", frames(("r", 0.9)))
    await known("search").push("search", "shared-id", frames(("b", 0.1)))
    for peer, frame in ((asks, "b"), (red, "r")):
        answer = await peer.compose(request_id="shared-id", expect_pushes=["search"])
        assert rows(answer.composition()) == {("search", frame): ""}


async def test_a_call_that_is_ended_and_cancelled_at_once_is_cancelled_and_one_that_has_an_answer_keeps_it() -> None:
    asks = Caller("", "asks", frozenset({Role.ORCHESTRATOR}), (), "")

    class Judge:
        def caller(self, presented: Presented, now: float) -> tuple[Caller, float | None]:
            raise Refused("revoked")

    under_test = callers.Callers(Judge())  # type: ignore[arg-type]
    admission = callers.Admission(asks, "Compose", Presented("c"), None)

    async def run(*, answers: bool) -> str:
        stream = SimpleNamespace(disowned=False, claims=())
        with under_test.watching(admission, stream):  # type: ignore[arg-type]
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if not answers:
                    raise
        return "answered"

    answering, cancelled = asyncio.create_task(run(answers=True)), asyncio.create_task(run(answers=False))
    await asyncio.sleep(0)
    await under_test.review(changed=True)
    cancelled.cancel()
    await asyncio.wait({answering, cancelled})
    assert answering.result() == "answered"
    assert answering.cancelling() == 0
    assert cancelled.cancelled()
