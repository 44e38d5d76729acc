"""Where the class archive of Kafka's JVMs lies: it takes about a second off every start of a node or a tool.

The JVM keeps the classes that it loaded, parsed and checked, in a file (JEP 350) and ignores a file that does not fit.
"""

from __future__ import annotations

from pathlib import Path

from harness.jvm.jars import KAFKA_VERSION, cache_dir

_QUIET = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def archive_file(version: str = KAFKA_VERSION) -> Path:
    """The archive for one version of Kafka, whether it exists or not; see `harness.prepare`."""
    return cache_dir() / "kafka" / f"{version}.classes.jsa"


def use_options(version: str) -> list[str]:
    """JVM options that use the archive; none while there is none."""
    path = archive_file(version)
    return [f"-XX:SharedArchiveFile={path}", *_QUIET] if path.is_file() else []


def record_options(path: Path) -> list[str]:
    """JVM options that write an archive to `path` when the JVM ends in order."""
    return [f"-XX:ArchiveClassesAtExit={path}", *_QUIET]
