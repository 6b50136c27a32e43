"""A generic gRPC client learns the contract by reflection alone and drives Compose with it (buf curl)."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import sys
from pathlib import Path

import pytest
from google.rpc import error_details_pb2


async def buf_curl(*arguments: str) -> tuple[int, str, str]:
    binary = shutil.which("buf", path=str(Path(sys.executable).parent)) or shutil.which("buf")
    if binary is None:
        pytest.skip("no buf on this machine: install the dev extra (buf-bin)")
    process = await asyncio.create_subprocess_exec(
        binary,
        "curl",
        "--http2-prior-knowledge",
        "--protocol",
        "grpc",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), timeout=60)
    return process.returncode or 0, out.decode(), err.decode()


def values(text: str) -> list[dict]:
    decoder, found, rest = json.JSONDecoder(), [], text.strip()
    while rest:
        value, end = decoder.raw_decode(rest)
        found.append(value)
        rest = rest[end:].strip()
    return found


async def test_reflection_lists_the_services_and_their_constraints(broker):
    code, out, err = await buf_curl("--list-methods", f"http://{broker.address}")
    assert code == 0, err
    assert "contextbroker.v1.ContextService/Compose" in out
    assert "contextbroker.v1.ProviderService/Attach" in out


async def test_compose_over_inline_evidence(broker):
    request = {
        "goal": "who said what?",
        "maxTokens": 2000,
        "noProviders": True,
        "inlineLanes": [
            {"providerId": "memory", "frames": [{"id": "m1", "title": "t", "content": "the cat sat", "score": 0.5}]},
            {"providerId": "notes", "frames": [{"id": "k1", "title": "t", "content": "the dog ran", "score": 0.1}]},
        ],
    }
    url = f"http://{broker.address}/contextbroker.v1.ContextService/Compose"
    code, out, err = await buf_curl("--data", json.dumps(request), url)
    assert code == 0, err
    messages = values(out)
    assert "accepted" in messages[0]
    assert "completed" in messages[-1]["part"]
    placed = [item for message in messages for item in message.get("part", {}).get("placed", [])]
    assert [p["frame"]["id"] for p in placed] == ["m1", "k1"]
    assert "score" not in placed[0]["frame"], "no raw score leaves as a measure of relevance"


async def test_a_refusal_tells_reason_field_and_what_to_do(broker):
    request = {"goal": "x", "maxTokens": 2000, "floors": [{"providerId": "*", "scaleId": "unit", "value": 0.5}]}
    url = f"http://{broker.address}/contextbroker.v1.ContextService/Compose"
    code, _out, err = await buf_curl("--data", json.dumps(request), url)
    assert code != 0
    error = json.loads(err)
    assert error["code"] == "invalid_argument"
    assert "floors[0].provider_id" in error["message"]
    details = {detail["type"]: base64.b64decode(detail["value"] + "==") for detail in error["details"]}
    info = error_details_pb2.ErrorInfo.FromString(details["google.rpc.ErrorInfo"])
    assert (info.reason, info.domain) == ("FLOOR_PROVIDER_NAME", "contextbroker")
    (violation,) = error_details_pb2.BadRequest.FromString(details["google.rpc.BadRequest"]).field_violations
    assert violation.field == "floors[0].provider_id"
    assert "one provider's name" in violation.description
