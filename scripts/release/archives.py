"""Archives whose bytes depend only on their content, and the checksums of files."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SUMS = "SHA256SUMS"


@dataclass(frozen=True, slots=True)
class PackedFile:
    """The content of a file in an archive."""

    data: bytes
    executable: bool = False


def pack(files: Mapping[str, PackedFile], epoch: int) -> bytes:
    """A gzipped tar archive of `files` in the order of their names; each has the time `epoch` and belongs to root."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            entry = tarfile.TarInfo(name)
            entry.size = len(files[name].data)
            entry.mtime = epoch
            entry.mode = 0o755 if files[name].executable else 0o644
            entry.uname = entry.gname = "root"
            archive.addfile(entry, io.BytesIO(files[name].data))
    return packed.getvalue()


def unpack(data: bytes) -> dict[str, PackedFile]:
    """The files of a gzipped tar archive; folders and links are left out."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
        found = {}
        for entry in archive:
            content = archive.extractfile(entry) if entry.isreg() else None
            if content is not None:
                found[entry.name] = PackedFile(content.read(), bool(entry.mode & 0o100))
        return found


def files_below(folder: Path) -> dict[str, PackedFile]:
    """The files below a folder, by their paths from it."""
    return {
        path.relative_to(folder).as_posix(): PackedFile(path.read_bytes(), bool(path.stat().st_mode & 0o100))
        for path in folder.rglob("*")
        if path.is_file()
    }


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_sums(folder: Path) -> Path:
    """Write SHA256SUMS of all files below `folder`, as `sha256sum --check SHA256SUMS` reads it."""
    target = folder / SUMS
    named = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(SUMS))
    target.write_text("".join(f"{sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in named))
    return target
