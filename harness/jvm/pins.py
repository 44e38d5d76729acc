"""Which bytes the jars of Kafka are: `jars.sha256` names each that was ever fetched here, and its hash.

`python -m harness.jvm.pins .cache/kafka` writes the file again from the jars in that folder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from harness.errors import HarnessError

PINS = Path(__file__).with_name("jars.sha256")


def check_pins(version: str, jars: Iterable[Path], pins: Path = PINS) -> None:
    """Raises HarnessError for a jar that is another than the pinned one, or that no pin names.

    Of a release of Kafka that has no pins nothing is checked, and a line on stderr says so.
    """
    pinned = read_pins(pins)
    if not any(name.endswith(f"-{version}.jar") for name in pinned):
        print(f"Kafka {version} has no pinned hashes in {pins.name}: its jars are taken as they come.", file=sys.stderr)
        return
    for jar in sorted(jars):
        if pinned.get(jar.name) != sha256(jar.read_bytes()).hexdigest():
            why = "has another hash than" if jar.name in pinned else "is not named in"
            raise HarnessError(f"{jar.name} of Kafka {version} {why} {pins}. Do not use it; ask where it came from.")


def read_pins(pins: Path = PINS) -> dict[str, str]:
    """Hash by file name."""
    lines = pins.read_text(encoding="ascii").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def write_pins(folders: Iterable[Path], pins: Path = PINS) -> None:
    """Pin what lies in these folders, beside what is pinned already. Raises HarnessError for two jars of one name."""
    found = read_pins(pins) if pins.is_file() else {}
    for jar in sorted(jar for folder in folders for jar in folder.glob("*.jar")):
        digest = sha256(jar.read_bytes()).hexdigest()
        if found.setdefault(jar.name, digest) != digest:
            raise HarnessError(f"{jar} is another file than the one that is pinned.")
    pins.write_text("".join(f"{found[name]}  {name}\n" for name in sorted(found)), encoding="ascii")


if __name__ == "__main__":
    write_pins(path for path in Path(sys.argv[1]).iterdir() if path.is_dir())
