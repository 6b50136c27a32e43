"""A client that no one here wrote attaches a provider and composes, from the .proto files alone (grpc-js, Node)."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PROTOS = HERE.parents[1] / "protos"


async def node(address: str) -> dict:
    binary = shutil.which("node")
    if binary is None:
        pytest.skip("no node on this machine: the foreign client cannot run")
    if not (HERE / "node_modules" / "@grpc" / "grpc-js").is_dir():
        pytest.skip("the foreign client's packages are not installed: run 'make test', with npm on this machine")
    process = await asyncio.create_subprocess_exec(
        binary,
        str(HERE / "roundtrip.mjs"),
        address,
        str(PROTOS),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), timeout=60)
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_attach_answer_compose_and_a_refusal(broker):
    seen = await node(broker.address)

    assert seen["welcome"]["session_id"]
    assert [query["goal"] for query in seen["asked"]] == ["what does node say?"]

    kinds = [name for message in seen["messages"] for name in ("accepted", "lane_updates", "part") if message.get(name)]
    assert kinds[0] == "accepted"
    assert set(kinds[1:]) == {"lane_updates", "part"}
    parts = [message["part"] for message in seen["messages"] if message.get("part")]
    *before, completed = [part.get("completed") for part in parts]
    assert completed
    assert not any(before)

    placed = [item for part in parts for item in part.get("placed", [])]
    assert [(p["provider_id"], p["frame"]["id"], p["local_rank"]) for p in placed] == [
        ("node", "n1", 1),
        ("node", "n2", 2),
    ]
    prompt = completed["preamble"] + "".join(p["rendered"] for p in placed) + completed["closing"]
    assert "héllo from node — 文脈" in prompt
    assert (len(prompt.encode()) + 3) // 4 <= 2000

    rows = [row for part in parts for row in part.get("audit", [])]
    assert {row["frame_id"]: row["fate"] for row in rows} == {"n1": "FATE_INCLUDED", "n2": "FATE_INCLUDED"}
    assert rows[0]["score"]["provider_id"] == "node"
    assert rows[0]["score"]["value"] == format(0.9, ".17g")

    assert seen["refusal"]["code"] == 3, "INVALID_ARGUMENT"
    assert "max_tokens" in seen["refusal"]["text"]
    assert seen["refusal"]["details"] > 0
