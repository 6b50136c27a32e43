"""Has a running Prometheus answer every panel of a dashboard, and prints how many series each one shows.

``python ask-panels.py DASHBOARD.json http://HOST:PORT``; exit code 1 where a query is refused.
"""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path


def queries(dashboard: str) -> Iterator[tuple[str, str]]:
    """Each panel's title and query, with what Grafana would put in place of its variables."""
    for panel in json.loads(dashboard)["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")


def series(prometheus: str, query: str) -> int:
    """How many series answer a query.

    Raises:
        urllib.error.URLError: It was refused, or no one answers.
    """
    asked = f"{prometheus}/api/v1/query?{urllib.parse.urlencode({'query': query})}"
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - an address that the operator gave
        return len(json.load(answer)["data"]["result"])


def main(file: str, prometheus: str) -> int:
    """Asks all of them; the exit code."""
    refused = 0
    for title, query in queries(Path(file).read_text()):
        try:
            print(f"{series(prometheus, query):4} series  {title}")
        except urllib.error.HTTPError as error:
            refused += 1
            print(f"refused      {title}: {error.read().decode()}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2].rstrip("/")))
