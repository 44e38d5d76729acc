"""Files that a command writes, and never over existing files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import typer

from twinlog.console.command_log import print_error
from twinlog.console.exit_codes import WRONG


def require_new(paths: Iterable[Path], option: str) -> None:
    """Raise BadParameter before the work if a file exists, or its folder refuses new files."""
    for path in paths:
        if path.exists():
            raise typer.BadParameter(f"{path} exists, and is kept; name another file", param_hint=option)
        if not path.parent.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
            raise typer.BadParameter(
                f"{path.parent} refuses new files; name a file in a writable folder", param_hint=option
            )


def write_new_files(files: Mapping[Path, tuple[bytes, int]], *, kept: str, way_out: str = "") -> None:
    """Write files, each with its content and its mode; folders are made.

    The command ends with code 2 if a file exists, and the line ends with `kept`; or if a file is refused, and the line
    ends with `way_out`; or if the disk is full. Then no file is left, so that the command can be repeated.
    """
    there = next((path for path in files if path.exists()), None)
    if there is not None:
        print_error(f"TW-USE-02: {there} exists{kept}")
        raise typer.Exit(WRONG)
    made: list[Path] = []
    try:
        for path, (content, mode) in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            made.append(path)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
    except OSError as error:
        for path in made:
            path.unlink(missing_ok=True)
        # Only a call that opens a file names the file in its error.
        refused, remedy = error.filename, way_out
        if refused is None:
            refused, remedy = made[-1], "; make room, or choose another directory"
        print_error(f"TW-USE-02: {refused}: {error.strerror}{remedy}")
        raise typer.Exit(WRONG) from None
