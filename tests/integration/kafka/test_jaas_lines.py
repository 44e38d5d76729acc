"""Lines for `sasl.jaas.config`, drawn anew, are read as Kafka's own class reads them."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

from harness.jvm.jars import classpath_argument
from harness.jvm.java import java_command
from twinlog.config.security.jaas import JaasError, parse_entry

RECORDER = Path(__file__).parents[2] / "recorded" / "RecordJaas.java"
LINES = 20_000


def test_drawn_lines() -> None:
    seed = random.randrange(2**31)
    command = [java_command(), "-cp", classpath_argument(), str(RECORDER), str(LINES), str(seed)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
    read = 0
    for row in map(json.loads, printed.splitlines()):
        try:
            entry = parse_entry(row["line"])
            found = {"module": entry.module, "flag": entry.flag, "options": dict(entry.options)}
        except JaasError:
            found = {}
        assert {"line": row["line"], **found} == row, f"seed {seed}"
        read += bool(found)
    assert read > LINES / 10
