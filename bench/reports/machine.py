"""Where and when a benchmark ran."""

from __future__ import annotations

import datetime
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.errors import HarnessError
from harness.jvm.jars import KAFKA_VERSION
from harness.jvm.java import java_command
from twinlog import __version__

GB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Machine:
    date: str
    cores: int
    memory_gb: float
    processor: str
    system: str
    python: str
    java: str
    kafka: str
    pyspark: str
    twinlog: str
    commit: str
    """Of the checkout, with `+` when something was changed since; empty outside of a checkout."""


def describe() -> Machine:
    from importlib.metadata import version  # noqa: PLC0415

    java = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=True).stderr
    return Machine(
        date=datetime.datetime.now().astimezone().strftime("%Y-%m-%d"),
        cores=psutil.cpu_count() or 0,
        memory_gb=round(psutil.virtual_memory().total / GB, 1),
        processor=_processor(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        java=java.split('"')[1] if '"' in java else java.splitlines()[0],
        kafka=KAFKA_VERSION,
        pyspark=version("pyspark"),
        twinlog=__version__,
        commit=_revision("--short", "HEAD"),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def code() -> str:
    """The hash of the committed sources, with `+` when something was changed since; empty outside of a checkout."""
    return _revision("HEAD:src")


def _revision(*arguments: str) -> str:
    found, changed = _git("rev-parse", *arguments), _git("status", "--porcelain", "../src")
    return "" if found is None or changed is None else found + ("+" if changed else "")


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=Path(__file__).parent, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def require_disk(where: Path, wanted: int) -> None:
    """Raises HarnessError when less than `wanted` bytes are free where that directory is, or would be."""
    free = shutil.disk_usage(next(place for place in (where, *where.parents) if place.is_dir())).free
    if free < wanted:
        raise HarnessError(
            f"{where} has {free / GB:.1f} GB free and this run needs {wanted / GB:.1f} GB. Make room, name another "
            "place with --work-dir, or copy less with --scale or --only."
        )
