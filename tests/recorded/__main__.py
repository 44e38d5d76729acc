"""Runs each `Record*.java` beside this file and keeps what it prints as `<name>.jsonl`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.jars import classpath_argument
from harness.java import java_command

HERE = Path(__file__).parent
PRECEDENCE = sorted(str(path) for path in (HERE / "precedence").glob("*.properties"))
RECORDERS: dict[str, list[str]] = {
    "Policies": [],
    "Patterns": [],
    "Precedence": PRECEDENCE,
    "Formats": [],
    "Translations": [],
    "Clients": [],
    "Flows": [],
}


def main() -> None:
    for name, arguments in RECORDERS.items():
        source = str(HERE / f"Record{name}.java")
        command = [java_command(), "-cp", classpath_argument(), source, *arguments]
        printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
        (HERE / f"{name.lower()}.jsonl").write_text(printed, encoding="utf-8")


if __name__ == "__main__":
    main()
