"""Gets another PySpark than the one of the virtual environment, once, and keeps it in a folder of its own.

`python -m harness.spark.other_release` prints the folder.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.errors import HarnessError
from harness.jvm.jars import cache_dir, locked

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements" / "spark-4.3.txt"
INSTALL_DEADLINE_S = 900


def other_version() -> str:
    """Which one that is, by its requirements."""
    found = re.search(r"^pyspark==(\S+)", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def other_spark() -> Path:
    """A folder for the front of PYTHONPATH; installs what belongs there when it is missing (460 MB, about a minute).

    Safe to call from several processes at once. Raises HarnessError.
    """
    home = cache_dir() / f"pyspark-{other_version()}"
    if home.is_dir():
        return home
    home.parent.mkdir(parents=True, exist_ok=True)
    with locked(home.parent / f"{home.name}.lock"):
        if home.is_dir():
            return home
        with tempfile.TemporaryDirectory(prefix=".pyspark-", dir=home.parent) as work:
            words = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--require-hashes"]
            fresh = Path(work, "there")
            done = subprocess.run(
                [sys.executable, "-m", "pip", "install", *words, "--target", str(fresh), "-r", str(REQUIREMENTS)],
                capture_output=True,
                text=True,
                timeout=INSTALL_DEADLINE_S,
                check=False,
            )
            if done.returncode:
                raise HarnessError(f"PySpark {other_version()} could not be installed:\n{done.stderr[-2000:]}")
            fresh.rename(home)
    return home


if __name__ == "__main__":
    print(other_spark())
