"""Runs each `Record*.java` beside this file and keeps what it prints as `<name>.jsonl`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.jvm.jars import OLDER_VERSION, classpath_argument
from harness.jvm.java import java_command

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
    "Plugins": [str(HERE / "validations.json")],
    "Values": [],
    "Jaas": ["400"],
}
OF_BOTH_LINES = {"Plugins", "Values"}
"""What users of releases before 4.0 meet, too."""


def main() -> None:
    for name, arguments in RECORDERS.items():
        classpaths = [classpath_argument(OLDER_VERSION, "mirror")] if name in OF_BOTH_LINES else []
        printed = [_printed(name, classpath, arguments) for classpath in [*classpaths, classpath_argument()]]
        (HERE / f"{name.lower()}.jsonl").write_text("".join(printed), encoding="utf-8")


def _printed(name: str, classpath: str, arguments: list[str]) -> str:
    command = [java_command(), "-cp", classpath, str(HERE / f"Record{name}.java"), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout


if __name__ == "__main__":
    main()
