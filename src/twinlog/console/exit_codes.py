"""The exit codes of `twinlog`, the same for every command, and the code of an error.

Kafka's own scripts (`connect-mirror-maker`, `connect-distributed`, `connect-standalone`) keep Kafka's codes.
"""

from __future__ import annotations

from typing import NoReturn

import typer

from twinlog.console.command_log import print_error, print_problems
from twinlog.console.signals import INTERRUPTED
from twinlog.errors import (
    ClusterError,
    ConfigError,
    DriverLostError,
    EngineError,
    GroupGoneError,
    OptionError,
    PatternError,
    RequestError,
    TopicGoneError,
    TwinlogError,
)
from twinlog.errors.message_ids import told

FINE, FOUND, WRONG, UNREACHABLE = range(4)

MEANINGS = {
    FINE: "success",
    FOUND: "the command found a problem, or a part of its work failed",
    WRONG: "an option or a file is wrong",
    UNREACHABLE: "a cluster, a worker or Spark is out of reach, or refuses the login",
    INTERRUPTED: "Ctrl-C (SIGINT) or SIGTERM interrupted the command",
}
"""The meaning of each code, for a command that says no more about it."""

_LOGIN_REFUSED, _UNAVAILABLE = (401, 403), 503


def code_of(error: TwinlogError) -> int:
    """The exit code of a command that ends with this error."""
    if isinstance(error, ConfigError | OptionError | PatternError):
        return WRONG
    if isinstance(error, RequestError):
        return UNREACHABLE if error.status in (*_LOGIN_REFUSED, _UNAVAILABLE) else FOUND
    if isinstance(error, TopicGoneError | GroupGoneError):
        return FOUND
    return UNREACHABLE if isinstance(error, ClusterError | EngineError | DriverLostError) else FOUND


def failure_text(error: TwinlogError) -> str:
    """The text of an error that ends a command, or a part of its work, with an id in front."""
    return told(error, "TW-REST-08" if isinstance(error, RequestError) else "TW-USE-06")


def end_with(error: TwinlogError) -> NoReturn:
    """Print an error on stderr, and end the command with its code."""
    if isinstance(error, ConfigError):
        print_problems(error)
    else:
        print_error(failure_text(error))
    raise typer.Exit(code_of(error)) from None
