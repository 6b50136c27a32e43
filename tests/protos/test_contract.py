"""Every message and field of the contract is commented, every constraint compiles, and zero means unspecified."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import protovalidate
import pytest
from contextbroker.v1 import composition_pb2, context_service_pb2, frame_pb2, provider_service_pb2, strategy_pb2
from google.protobuf import message_factory

PROTOS = Path(__file__).resolve().parents[2] / "protos"
FILES = [
    module.DESCRIPTOR
    for module in (composition_pb2, context_service_pb2, frame_pb2, provider_service_pb2, strategy_pb2)
]


def test_buf_lint_standard_and_comments():
    binary = shutil.which("buf", path=str(Path(sys.executable).parent)) or shutil.which("buf")
    if binary is None:
        pytest.skip("no buf on this machine: install the dev extra (buf-bin)")
    result = subprocess.run([binary, "lint"], cwd=PROTOS, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def breaking(protos: Path) -> str:
    """What in a contract breaks those who speak the released one; empty: nothing."""
    binary = shutil.which("buf", path=str(Path(sys.executable).parent)) or shutil.which("buf")
    if binary is None:
        pytest.skip("no buf on this machine: install the dev extra (buf-bin)")
    command = [binary, "breaking", "--against", str(PROTOS / "released.binpb"), "--exclude-path", "buf"]
    return subprocess.run(command, cwd=protos, capture_output=True, text=True, check=False).stdout


def test_no_one_who_speaks_the_released_contract_is_broken():
    assert breaking(PROTOS) == ""


def test_a_change_that_would_break_someone_is_found(tmp_path):
    changed = tmp_path / "protos"
    shutil.copytree(PROTOS, changed)
    frame = changed / "contextbroker" / "v1" / "frame.proto"
    assert "string title = 3" in frame.read_text()
    frame.write_text(frame.read_text().replace("string title = 3", "bytes title = 3"))
    assert '"title"' in breaking(changed)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_constraints_compile(file):
    validator = protovalidate.Validator()
    for descriptor in file.message_types_by_name.values():
        validator.collect_violations(message_factory.GetMessageClass(descriptor)())


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_zero_is_unspecified(file):
    for enum in file.enum_types_by_name.values():
        assert enum.values_by_number[0].name.endswith("_UNSPECIFIED")


def test_no_field_could_hold_a_threshold_over_providers():
    """DESIGN 3.1 (1): a minimum exists per named provider (Floor) or within one reranker, and nowhere else."""
    holders = {
        f"{descriptor.full_name}.{field.name}"
        for file in FILES
        for descriptor in file.message_types_by_name.values()
        for field in descriptor.fields
        if any(word in field.name for word in ("min_score", "threshold", "cutoff", "min_rerank", "floor"))
    }
    assert holders == {
        "contextbroker.v1.ComposeRequest.floors",
        "contextbroker.v1.AuditScore.floor",
        "contextbroker.v1.AuditSummary.floors",
        "contextbroker.v1.FloorRecord.floor",
        "contextbroker.v1.Rerank.min_rerank_score",
        "contextbroker.v1.RerankRecord.min_rerank_score",
    }
