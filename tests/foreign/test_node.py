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

    kinds = [part["message"] for part in seen["parts"]]
    assert kinds[0] == "accepted"
    assert kinds[-1] == "completed"
    assert kinds.count("completed") == 1

    placed = [item for part in seen["parts"] if part["message"] == "placed" for item in part["placed"]["placed"]]
    assert [(p["provider_id"], p["frame"]["id"], p["local_rank"]) for p in placed] == [
        ("node", "n1", 1),
        ("node", "n2", 2),
    ]
    completed = seen["parts"][-1]["completed"]
    prompt = completed["preamble"] + "".join(p["rendered"] for p in placed) + completed["closing"]
    assert "héllo from node — 文脈" in prompt
    assert (len(prompt.encode()) + 3) // 4 <= 2000

    rows = [row for part in seen["parts"] if part["message"] == "audit" for row in part["audit"]["rows"]]
    assert {row["frame_id"]: row["fate"] for row in rows} == {"n1": "FATE_INCLUDED", "n2": "FATE_INCLUDED"}
    assert rows[0]["score"]["provider_id"] == "node"
    assert rows[0]["score"]["value"] == format(0.9, ".17g")

    assert seen["refusal"]["code"] == 3, "INVALID_ARGUMENT"
    assert "max_tokens" in seen["refusal"]["text"]
    assert seen["refusal"]["details"] > 0
