"""Options of the JVMs that twinlog starts, and their class archive, which is made once per machine and saves seconds.

Spark loads some ten thousand classes before it does anything. The JVM can keep them parsed and checked in a file (JEP
350, dynamic class data sharing). It ignores a file that has become unfit, so a stale archive is harmless.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pyspark

LATE = (
    # Compiling the methods of the start well costs seconds of the start; the methods for records get there soon.
    *("-XX:Tier4InvocationThreshold=50000", "-XX:Tier4MinInvocationThreshold=6000"),
    *("-XX:Tier4CompileThreshold=150000", "-XX:Tier4BackEdgeThreshold=400000"),
)


NEEDED_JAVA = "Spark needs Java 17 or newer, in JAVA_HOME or else on the PATH"
_OF_MISSING_JAVA = re.compile(
    # Spark's shells, and a shell's own complaint about the program java.
    r"JAVA_HOME is |(?:^|[\s/'\"])java['\"]?: "
    # A damaged Java.
    r"|Java SE Runtime Environment|libjava"
)
_OF_OLD_JAVA = re.compile(
    r"UnsupportedClassVersionError|class file version|LinkageError occurred while loading main class"
    # Options and modules that Spark asks for.
    r"|Unrecognized option: --|Module jdk\.incubator\."
)

UNUSED_S = 30 * 24 * 3600
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"


def asks_for_java(printed: Iterable[str]) -> bool:
    """Whether a missing or an old Java explains the printed lines of a JVM that failed to start.

    An empty output counts, too: it is the output of a program that failed to begin.
    """
    lines = [line for line in printed if line.strip()]
    return not lines or any(_OF_MISSING_JAVA.search(line) or _OF_OLD_JAVA.search(line) for line in lines)


def archive_file() -> Path:
    """The path of the archive for this Spark and this Java; the file may be missing.

    Below `$TWINLOG_CACHE`, `$XDG_CACHE_HOME/twinlog` or `~/.cache/twinlog`.
    """
    cache = os.environ.get("TWINLOG_CACHE")
    home = os.environ.get("XDG_CACHE_HOME")
    folder = Path(cache) if cache else (Path(home) if home else Path.home() / ".cache") / "twinlog"
    java = _java()
    stamp = "none" if java is None else f"{java}:{java.stat().st_mtime_ns}"
    place = Path(pyspark.__file__).parent
    key = hashlib.sha256(f"{pyspark.__version__}:{place}:{stamp}".encode()).hexdigest()[:16]
    return folder / f"spark-{pyspark.__version__}-{key}.jsa"


def use_arguments() -> tuple[str, ...]:
    """The JVM's arguments that use the archive; empty while the file is missing."""
    path = archive_file()
    if not path.is_file():
        return ()
    with contextlib.suppress(OSError):
        os.utime(path)
    return (f"-XX:SharedArchiveFile={path}", *_QUIET.split())


def use_options() -> str:
    """The same as a single text, as Spark's settings take them."""
    return " ".join(use_arguments())


def forget_unused(kept: Path) -> None:
    """Delete archives beside `kept` whose last use is a month old: archives of earlier versions."""
    for path in kept.parent.glob("spark-*.jsa"):
        with contextlib.suppress(OSError):
            if path != kept and time.time() - path.stat().st_mtime > UNUSED_S:
                path.unlink()


def record_options(path: Path) -> str:
    """JVM options that write an archive to `path` when the JVM ends."""
    return f"-XX:ArchiveClassesAtExit={path} {_QUIET}"


def silence_py4j() -> None:
    """Keep py4j's own lines out of the log: a call that a lost JVM leaves unanswered raises, and its caller reports it.

    py4j logs such a call with a stack trace, to the root logger, too.
    """
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_by_py4j)


def _not_by_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    path = Path(found).resolve() if found else None
    return path if path is not None and path.is_file() else None
