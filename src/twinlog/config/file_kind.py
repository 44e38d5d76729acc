"""The program that a file is for, by its content, and the problem if a command gets the file of another program."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from contextlib import suppress
from enum import Enum
from pathlib import Path

from twinlog.config.properties import read_properties
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, MistakeKind

OFFSET_FILE = "offset.storage.file.filename"
# This includes JSON of kubectl; a properties file lacks both words at the begin of a line.
_LOOKS_LIKE = (re.compile(rb'^\s*"?apiVersion"?\s*:', re.MULTILINE), re.compile(rb'^\s*"?kind"?\s*:', re.MULTILINE))
_WORKERS = frozenset({OFFSET_FILE, "config.storage.topic", "status.storage.topic"})


class FileKind(Enum):
    """Whose file it is; the value names it as a user does, with the command that runs it."""

    MIRROR = "MirrorMaker 2's properties, which run with: twinlog run {file}"
    RESOURCE = "a resource of Kubernetes, which runs with: twinlog run {file}"
    WORKER = "the file of a Connect worker, which runs with: twinlog connect {file}"
    CONNECTOR = (
        "the file of a connector, which a worker runs: twinlog connectors create {file}, or after the file of a "
        "standalone worker"
    )
    CLIENT = "properties of a client of a single cluster"


_EXPECTED = {
    FileKind.MIRROR: "MirrorMaker 2's properties, with clusters",
    FileKind.WORKER: "properties of a Connect worker, with bootstrap.servers and its converters",
    FileKind.CONNECTOR: "properties or JSON of a connector, with connector.class",
    FileKind.CLIENT: "properties of a client of a single cluster, with bootstrap.servers",
}


def is_resource(path: str | Path) -> bool:
    """Whether the file at `path` holds a Kubernetes resource; False for an unreadable file."""
    try:
        data = Path(path).read_bytes()
    except OSError:
        return False
    return all(pattern.search(data) for pattern in _LOOKS_LIKE)


def known_kind(path: str | Path) -> FileKind | None:
    """The kind that the content shows for certain; None if the content is ambiguous or the file is unreadable."""
    path = Path(path)
    if is_resource(path):
        return FileKind.RESOURCE
    with suppress(OSError):
        if is_json(path.read_bytes()):
            return FileKind.CONNECTOR
    with suppress(ConfigError):
        names = {entry.key for entry in read_properties(path)}
        if "clusters" in names or any("->" in name for name in names):
            return FileKind.MIRROR
        if "connector.class" in names:
            return FileKind.CONNECTOR
        if names & _WORKERS or {"group.id", "key.converter"} <= names:
            return FileKind.WORKER
    return None


def kind_of(path: str | Path) -> FileKind:
    """The kind that the file looks like; an ambiguous or unreadable file counts as MirrorMaker 2's."""
    return known_kind(path) or FileKind.MIRROR


def require_kind(path: str | Path, wanted: FileKind) -> None:
    """Raise ConfigError if the file at `path` certainly has another kind than `wanted`.

    Otherwise each of its lines would be an unknown key, and missing keys would hide wrong values.
    """
    found = known_kind(path)
    if found not in (None, wanted):
        words = found.value.format(file=path)
        raise ConfigError(
            [ConfigProblem(str(path), None, "", f"this is {words}", _EXPECTED[wanted], MistakeKind.OTHER_PROGRAM)]
        )


def is_json(data: bytes) -> bool:
    """Whether the data is JSON, or was meant to be: keys of properties begin otherwise."""
    return data.removeprefix(BOM_UTF8).lstrip()[:1] in (b"{", b"[")
