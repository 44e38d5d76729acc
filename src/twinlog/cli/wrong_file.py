"""The end of a command whose file is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from twinlog.cli.foreground import print_problems
from twinlog.errors import ConfigError


@contextmanager
def ends_if_wrong(code: int) -> Iterator[None]:
    """End the command with `code`, and the problems on stderr, where the block raises ConfigError."""
    try:
        yield
    except ConfigError as error:
        print_problems(error)
        raise typer.Exit(code) from None
