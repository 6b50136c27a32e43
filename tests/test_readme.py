"""Both snippets of README.md run as they stand there, against a real broker, and the commands it names exist."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from broker.client import ContextClient

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
SNIPPETS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
DEFAULT = "127.0.0.1:7433"


async def start(source: str, address: str) -> asyncio.subprocess.Process:
    assert DEFAULT in source
    command = (sys.executable, "-c", source.replace(DEFAULT, address))
    return await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


async def attached(address: str, provider: str) -> None:
    async with ContextClient(address) as client:
        # The snippet tells nobody that it is attached; each call is a round trip, so the broker is asked till it knows.
        while not any(listed.provider == provider and listed.instances for listed in await client.providers()):
            pass


async def test_a_provider_and_a_query_of_ten_lines(broker):
    provider_source, query_source = SNIPPETS
    provider = await start(provider_source, broker.address)
    try:
        await asyncio.wait_for(attached(broker.address, "notes"), timeout=30)
        query = await start(query_source, broker.address)
        out, err = await asyncio.wait_for(query.communicate(), timeout=30)
        assert query.returncode == 0, err.decode()
        assert "The cat sat on the mat." in out.decode()
        assert "notes n1 placed" in out.decode()
    finally:
        provider.terminate()
        _, err = await asyncio.wait_for(provider.communicate(), timeout=30)
    assert provider.returncode == 0, err.decode()


def test_files_and_targets_that_it_names_exist():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^make (\w+)", README, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile
