"""The disk space of an installation in docs/versions.md, by the locked packages of this environment.

Compiled modules are apart, because pip compiles modules or leaves that to their first import.
"""

from __future__ import annotations

import re
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STATED = re.compile(r"You need (\d+) MB of disk \(PySpark (\d+) MB, PyArrow (\d+) MB, NumPy (\d+) MB\)")


def locked() -> dict[str, str]:
    """The version of each package of an installation."""
    text = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def size_mb(name: str) -> float:
    places = [Path(str(file.locate())) for file in distribution(name).files or () if file.suffix != ".pyc"]
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def test_the_stated_size_is_that_of_the_locked_packages() -> None:
    versions = locked()
    others = {name for name, version in versions.items() if distribution(name).version != version}
    if others:
        pytest.skip(f"this environment has other versions of {', '.join(sorted(others))}")
    stated = STATED.search((ROOT / "docs" / "versions.md").read_text("utf-8"))
    assert stated is not None
    whole, *parts = map(int, stated.groups())
    sizes = {name: size_mb(name) for name in versions}
    for name, part in zip(("pyspark", "pyarrow", "numpy"), parts, strict=True):
        assert sizes[name] == pytest.approx(part, rel=0.02), sizes
    own = (
        sum(file.stat().st_size for file in (ROOT / "src").rglob("*") if file.is_file() and file.suffix != ".pyc") / 1e6
    )
    assert sum(sizes.values()) + own == pytest.approx(whole, rel=0.03), sizes
