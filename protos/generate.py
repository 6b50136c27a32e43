"""Writes the Python modules and type stubs of the contract beside its ``.proto`` files.

``python protos/generate.py [TARGET]`` writes below TARGET, by default below this folder. The validation options that
the contract imports come from ``buf/validate/validate.proto``; its Python module is kept inside our own package, so
that installing this project adds no top-level package of another project's name.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib import resources
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONTRACT = sorted(path.relative_to(HERE).as_posix() for path in (HERE / "contextbroker" / "v1").glob("*.proto"))
VALIDATE = "buf/validate/validate.proto"


def generate(target: Path) -> list[Path]:
    """Generates everything below ``target`` and returns the files written, relative to it."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        well_known = resources.files("grpc_tools") / "_proto"
        tools = Path(sys.executable).parent
        protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE}", f"-I{well_known}"]
        plugins = [f"--plugin={tools / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
        subprocess.run(
            [
                *protoc,
                *plugins,
                f"--python_out={out}",
                f"--mypy_out=quiet:{out}",
                f"--grpc_python_out={out}",
                f"--mypy_grpc_out=quiet:{out}",
                *CONTRACT,
            ],
            check=True,
        )
        subprocess.run([*protoc, f"--python_out={out}", VALIDATE], check=True)
        # Messages without services get an empty gRPC module from protoc; leave those out.
        services = {path for path in CONTRACT if "\nservice " in (HERE / path).read_text()}
        written = []
        for path in sorted(out.rglob("*.py*")):
            name = path.relative_to(out).as_posix()
            if "_pb2_grpc" in name and name.split("_pb2_grpc")[0] + ".proto" not in services:
                continue
            text = re.sub(
                r"^(from|import) buf\.validate\b",
                r"\1 contextbroker.buf.validate",
                path.read_text(),
                flags=re.MULTILINE,
            )
            place = Path(name) if not name.startswith("buf/") else Path("contextbroker") / name
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            (target / place).write_text(text)
            written.append(place)
        return written


if __name__ == "__main__":
    for file in generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE):
        print(file)
