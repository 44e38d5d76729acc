"""Prints the problems and warnings of a file on stderr, and ends a command whose file is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import typer

from twinlog.errors import ConfigError

EXIT_CONFIG = 2
"""A file that is wrong, with programs that would have copied."""


def print_problems(error: ConfigError) -> None:
    """Every warning and problem of a file, on stderr."""
    print_warnings(error.warnings)
    for problem in error.problems:
        typer.echo(f"problem: {problem}", err=True)


def print_refusal(error: ConfigError) -> None:
    """The same, for a command that would have copied."""
    print_problems(error)
    typer.echo("nothing was started and no cluster was contacted", err=True)


def print_warnings(warnings: Sequence[str]) -> None:
    """Print settings that are legal in a file but surely unintended, on stderr."""
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


@contextmanager
def ends_if_wrong(code: int) -> Iterator[None]:
    """End the command with `code`, and the problems on stderr, if the block raises ConfigError."""
    try:
        yield
    except ConfigError as error:
        print_problems(error)
        raise typer.Exit(code) from None
