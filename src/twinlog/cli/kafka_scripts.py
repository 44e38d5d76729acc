"""The common parts of Kafka's scripts: kafka-run-class.sh with its environment, and a daemon with its log file."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

EXIT_USAGE = 1

JAVA_VARIABLES = (
    "KAFKA_HEAP_OPTS",
    "KAFKA_OPTS",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_JMX_OPTS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_DEBUG",
    "JMX_PORT",
)
"""Variables of the environment that Kafka's scripts read for a Java process."""

_LOGIN_FILE = "java.security.auth.login.config"


@dataclass(frozen=True, slots=True)
class ExtraArgs:
    """The arguments that Kafka's scripts hand to the script that starts Java: the name of the log file, and whether it
    is a daemon."""

    log_name: str
    daemon: bool


def read_extra_args(environment: Mapping[str, str], name: str) -> ExtraArgs:
    """Read `EXTRA_ARGS`; if it is missing the log file is called `name`."""
    # A shell splits it at blanks alone, since the scripts leave it unquoted.
    words = environment.get("EXTRA_ARGS", f"-name {name}").split()
    return ExtraArgs(next((value for word, value in pairwise(words) if word == "-name"), name), "-daemon" in words)


def java_warnings(environment: Mapping[str, str], *, reads_login_file: bool = False) -> list[str]:
    """A sentence if the environment addresses a Java process, otherwise an empty list.

    A Connect worker `reads_login_file` for the users of its REST API.
    """
    found = [name for name in JAVA_VARIABLES if environment.get(name)]
    named = _LOGIN_FILE in environment.get("KAFKA_OPTS", "")
    if named and reads_login_file:
        found.remove("KAFKA_OPTS")
    if not found:
        return []
    text = f"{', '.join(found)}: meant for a Java process of Kafka; nothing here reads it"
    if named and not reads_login_file:
        text += ", and no login file either: write sasl.jaas.config into the properties"
    return [text]


def detach(module: str, words: Sequence[str], log_name: str, environment: Mapping[str, str]) -> Path:
    """Start `module` with `words` in a session of its own that lacks a terminal; returns its log file.

    The file is `log_name` with `.out`, in `$LOG_DIR` or ./logs; its content stays. Raises OSError if the file is
    unwritable.
    """
    folder = Path(environment.get("LOG_DIR") or "logs")
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{log_name}.out"
    # Opened to append: another process may still be writing to this file.
    with log.open("ab") as output:
        subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**environment, "EXTRA_ARGS": ""},
        )
    return log


def run_as_daemon(
    program: str, module: str, words: Sequence[str], log_name: str, environment: Mapping[str, str]
) -> None:
    """`detach`, and a line on stderr about the log file; exits with 1 if that file is unwritable."""
    try:
        log = detach(module, words, log_name, environment)
    except OSError as error:
        sys.stderr.write(f"{program}: cannot log to {error.filename}: {error.strerror}; set LOG_DIR\n")
        raise SystemExit(EXIT_USAGE) from None
    sys.stderr.write(f"{program}: goes on in the background and logs to {log}\n")
