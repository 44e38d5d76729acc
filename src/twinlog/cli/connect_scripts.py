"""`connect-distributed` and `connect-standalone`: workers under the names, arguments and exit codes of Kafka's scripts.

Kafka's connect-distributed.sh and connect-standalone.sh, kafka-run-class.sh and the class AbstractConnectCli are the
model, so that unit files and containers run as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlog.cli.connect import WorkerExits, rest_users, run_worker
from twinlog.cli.kafka_scripts import EXIT_USAGE, java_warnings, read_extra_args, run_as_daemon
from twinlog.config.worker import load_worker
from twinlog.console.command_log import end_process
from twinlog.console.wrong_file import EXIT_CONFIG, print_refusal
from twinlog.errors import ConfigError

EXIT_CONNECTOR = 3
EXITS = WorkerExits(listening=EXIT_CONFIG, connector=EXIT_CONNECTOR)


@dataclass(frozen=True, slots=True)
class Script:
    """A script of Kafka: its name, its usage, the module that begins it, and the name of its log."""

    program: str
    usage: str
    module: str
    log_name: str
    distributed: bool


DISTRIBUTED = Script(
    "connect-distributed",
    "connect-distributed.properties",
    "twinlog.connect_distributed",
    "connectDistributed",
    distributed=True,
)
STANDALONE = Script(
    "connect-standalone",
    "connect-standalone.properties [connector1.properties connector2.json ...]",
    "twinlog.connect_standalone",
    "connectStandalone",
    distributed=False,
)


@dataclass(frozen=True, slots=True)
class ConnectArguments:
    """The arguments of a command line."""

    worker: Path
    more: tuple[Path, ...]
    daemon: bool
    log_name: str


def parse(script: Script, words: Sequence[str], environment: Mapping[str, str]) -> ConnectArguments:
    """The meaning of a command line. Exits with 1 if the command line lacks a file, or asks for help."""
    extra = read_extra_args(environment, script.log_name)
    daemon = extra.daemon or words[:1] == ["-daemon"]
    files = words[1:] if words[:1] == ["-daemon"] else words
    if not files or "--help" in files:
        sys.stderr.write(f"USAGE: {script.program} [-daemon] {script.usage}\n")
        raise SystemExit(EXIT_USAGE)
    return ConnectArguments(Path(files[0]), tuple(map(Path, files[1:])), daemon, extra.log_name)


def run_distributed() -> None:
    """`connect-distributed`, by the command line of this process."""
    _run(DISTRIBUTED)


def run_standalone() -> None:
    """`connect-standalone`, by the command line of this process."""
    _run(STANDALONE)


def _run(script: Script) -> None:
    arguments = parse(script, sys.argv[1:], os.environ)
    warnings = java_warnings(os.environ, reads_login_file=True)
    code = EXIT_CONFIG
    from twinlog.console.worker_files import read_connectors  # noqa: PLC0415 - the usage must not wait for it

    try:
        config = load_worker(arguments.worker, distributed=script.distributed)
        code = EXIT_CONNECTOR
        if script.distributed and arguments.more:
            names = ", ".join(map(str, arguments.more))
            warnings.append(f"{names}: ignored; connectors of a distributed worker are created over its REST API")
        found, _ = read_connectors(() if script.distributed else arguments.more, config)
        code = EXIT_CONFIG
        users = rest_users(config)
    except ConfigError as error:
        print_refusal(error)
        raise SystemExit(code) from None
    if arguments.daemon:
        words = list(map(str, (arguments.worker, *arguments.more)))
        run_as_daemon(script.program, script.module, words, arguments.log_name, os.environ)
        return
    end_process(run_worker(config, users, EXITS, found, warnings=warnings))
