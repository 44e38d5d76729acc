"""Kafka's `connect-mirror-maker`, `connect-distributed` and `connect-standalone`: names, arguments, exit codes.

Kafka's scripts of these names, kafka-run-class.sh, and the classes MirrorMaker and AbstractConnectCli are the model, so
that unit files and containers run as they are. An unknown key of a MirrorMaker 2 file is a warning here, because
MirrorMaker 2 ignores it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from twinlog.cli.connect import WorkerExits, rest_users, run_worker
from twinlog.cli.foreground import ExitCodes, run_flows
from twinlog.clock import SYSTEM, wall_ms
from twinlog.config.file_changes import RunningFile
from twinlog.config.file_kind import is_resource
from twinlog.config.queries import checked_file
from twinlog.config.worker import load_worker
from twinlog.console.command_log import EXIT_CONFIG, end_process, print_refusal
from twinlog.errors import ConfigError
from twinlog.worker.reload.reloading import ReloadableFile

if TYPE_CHECKING:
    from twinlog.connect.log4j_file import Log4jFile
    from twinlog.connect.worker import Worker

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

PROGRAM = "connect-mirror-maker"
EXIT_ARGUMENTS = 255
EXIT_ERROR = 2

# MirrorMaker 2 lacks a mode that ends when all is copied.
MIRROR_MAKER_EXITS = ExitCodes(failed=EXIT_ERROR, broken=3, nothing=0, held=0)

EXIT_CONNECTOR = 3
CONNECT_EXITS = WorkerExits(listening=EXIT_CONFIG, connector=EXIT_CONNECTOR)


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


def java_warnings(
    environment: Mapping[str, str], *, reads_login_file: bool = False, reads_levels: bool = False
) -> list[str]:
    """A sentence if the environment addresses a Java process, otherwise an empty list.

    A Connect worker `reads_login_file` for the users of its REST API, and `reads_levels` of a log4j file.
    """
    read = {"KAFKA_LOG4J_OPTS"} if reads_levels else set()
    named = _LOGIN_FILE in environment.get("KAFKA_OPTS", "")
    if named and reads_login_file:
        read.add("KAFKA_OPTS")
    found = [name for name in JAVA_VARIABLES if environment.get(name, "").strip() and name not in read]
    if not found:
        return []
    text = f"{', '.join(found)}: meant for a Java process of Kafka; twinlog ignores it"
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
        sys.stderr.write(f"{program}: TW-USE-02: cannot log to {error.filename}: {error.strerror}; set LOG_DIR\n")
        raise SystemExit(EXIT_USAGE) from None
    sys.stderr.write(f"{program}: continues in the background and logs to {log}\n")


@dataclass(frozen=True, slots=True)
class MirrorMakerArguments:
    """The arguments of a command line; `clusters` is None for all."""

    file: Path
    clusters: tuple[str, ...] | None
    daemon: bool
    log_name: str


class _ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_ARGUMENTS, f"{self.prog}: error: TW-USE-01: {message}\n")


def parse_mirror_maker(arguments: Sequence[str], environment: Mapping[str, str]) -> MirrorMakerArguments:
    """The meaning of a command line. Exits with 1 if it is empty, with 255 if it is wrong, with 0 after `--help`."""
    if not arguments:
        sys.stderr.write(f"USAGE: {PROGRAM} [-daemon] mm2.properties\n")
        raise SystemExit(EXIT_USAGE)
    parser = _ArgumentParser(
        PROGRAM,
        allow_abbrev=False,
        description="Runs the flows of a MirrorMaker 2 file with twinlog. SIGHUP has the file read again.",
        epilog=f"Example: {PROGRAM} -daemon mm2.properties --clusters west",
    )
    parser.add_argument(
        "-daemon",
        action="store_true",
        help="As the first argument: continue in the background, log to mirrorMaker.out in $LOG_DIR or ./logs.",
    )
    parser.add_argument("--clusters", nargs="+", metavar="CLUSTER", help="Run only flows to these clusters.")
    parser.add_argument("file", metavar="mm2.properties", type=Path, help="MirrorMaker 2's configuration file.")
    found = parser.parse_args(arguments)
    if found.daemon and (arguments[0] != "-daemon" or arguments.count("-daemon") > 1):
        parser.error("unrecognized arguments: '-daemon' must be the first")
    if not os.access(found.file, os.R_OK) or found.file.is_dir():
        parser.error(f"argument mm2.properties: cannot read file: '{found.file}'")
    if is_resource(found.file):
        parser.error(f"argument mm2.properties: '{found.file}' is Strimzi's resource; write: twinlog run {found.file}")
    extra = read_extra_args(environment, "mirrorMaker")
    clusters = None if found.clusters is None else tuple(found.clusters)
    return MirrorMakerArguments(found.file, clusters, found.daemon or extra.daemon, extra.log_name)


def run_mirror_maker() -> None:
    """Run it by the command line of this process."""
    arguments = parse_mirror_maker(sys.argv[1:], os.environ)
    read = partial(checked_file, arguments.file, arguments.clusters, "warn")
    try:
        loaded = read()
    except ConfigError as error:
        print_refusal(error)
        raise SystemExit(EXIT_ERROR) from None
    if arguments.daemon:
        words = [str(arguments.file)]
        if arguments.clusters is not None:
            words += ["--clusters", *arguments.clusters]
        run_as_daemon(PROGRAM, "twinlog.connect_mirror_maker", words, arguments.log_name, os.environ)
        return
    again = ReloadableFile(str(arguments.file), RunningFile.of(loaded), read)
    end_process(run_flows(loaded.config, MIRROR_MAKER_EXITS, warnings=java_warnings(os.environ), file=again))


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
    "twinlog.cli.connect_distributed",
    "connectDistributed",
    distributed=True,
)
STANDALONE = Script(
    "connect-standalone",
    "connect-standalone.properties [connector1.properties connector2.json ...]",
    "twinlog.cli.connect_standalone",
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


def parse_connect(script: Script, words: Sequence[str], environment: Mapping[str, str]) -> ConnectArguments:
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
    arguments = parse_connect(script, sys.argv[1:], os.environ)
    code = EXIT_CONFIG
    from twinlog.connect.log4j_file import Log4jFile, log4j_file  # noqa: PLC0415 - the usage must not wait for it
    from twinlog.console.flow_files import read_connectors  # noqa: PLC0415

    levels = log4j_file(os.environ)
    warnings = java_warnings(os.environ, reads_login_file=True, reads_levels=levels is not None)

    try:
        config = load_worker(arguments.worker, distributed=script.distributed, lenient=True)
        code = EXIT_CONNECTOR
        if script.distributed and arguments.more:
            names = ", ".join(map(str, arguments.more))
            warnings.append(f"{names}: ignored; connectors of a distributed worker are created over its REST API")
        found, _ = read_connectors(() if script.distributed else arguments.more, config, lenient=True)
        code = EXIT_CONFIG
        users = rest_users(config)
    except ConfigError as error:
        print_refusal(error)
        raise SystemExit(code) from None
    if arguments.daemon:
        words = list(map(str, (arguments.worker, *arguments.more)))
        run_as_daemon(script.program, script.module, words, arguments.log_name, os.environ)
        return

    def follow(worker: Worker) -> Log4jFile:
        assert levels is not None
        return Log4jFile(levels, lambda name, level: worker.levels.set_level(name, level, wall_ms(SYSTEM)), SYSTEM)

    beside = None if levels is None else follow
    end_process(run_worker(config, users, CONNECT_EXITS, found, warnings=warnings, beside=beside))
