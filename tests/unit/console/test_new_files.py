"""Files of a command that the system refuses, or that the disk has no room for."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer

from twinlog.console.new_files import write_new_files


@contextmanager
def no_room() -> Iterator[None]:
    """Each write of a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_of_a_full_disk_the_file_is_named_and_none_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {tmp_path / "a": (b"1", 0o600), tmp_path / "b": (b"too long", 0o600)}
    with pytest.raises(typer.Exit), no_room():
        write_new_files(files, kept="", way_out="; choose a directory that you may write to")
    assert capsys.readouterr().err == (
        f"twinlog: TW-USE-02: {tmp_path / 'b'}: File too large; make room, or choose another directory\n"
    )
    write_new_files(files, kept="")
    assert (tmp_path / "b").read_bytes() == b"too long"


def test_of_a_refused_folder_the_way_out_is_that_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(typer.Exit):
        write_new_files({tmp_path / "file" / "a": (b"1", 0o600)}, kept="", way_out="; choose another directory")
    assert capsys.readouterr().err.endswith("; choose another directory\n")
