"""A process that follows its parent ends when its standard input closes, in order if it can, at once if it does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

IN_ORDER = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@pytest.mark.parametrize(("behaviour", "code"), [(IN_ORDER, 7), (DEAF, 1), ("pass", -15)])
def test_it_ends_with_its_parent(behaviour, code):
    program = (
        f"import signal, sys, broker.cli.parent as parent; {behaviour}; parent._GRACE = 0.1; parent.follow_parent();"
        "print('ready', flush=True);\nwhile True: signal.pause()"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    process.stdin.write(b"what is said does not matter\n")
    process.communicate()
    assert process.returncode == code
