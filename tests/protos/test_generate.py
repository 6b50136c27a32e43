"""The checked-in Python modules and stubs are exactly what the contract generates today."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PROTOS = Path(__file__).resolve().parents[2] / "protos"


def load_generator():
    if importlib.util.find_spec("grpc_tools") is None:
        pytest.skip("grpcio-tools is not installed: install the dev extra")
    spec = importlib.util.spec_from_file_location("generate", PROTOS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_modules_are_current(tmp_path):
    written = load_generator().generate(tmp_path)
    stale = [str(path) for path in written if (tmp_path / path).read_bytes() != (PROTOS / path).read_bytes()]
    assert not stale, "run 'make protos'"

    generated = {
        path.relative_to(PROTOS)
        for path in (PROTOS / "contextbroker").rglob("*_pb2*.py*")
        if "__pycache__" not in str(path)
    }
    assert generated == set(written), "modules that no .proto file makes any more"
