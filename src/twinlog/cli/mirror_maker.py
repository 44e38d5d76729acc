"""`connect-mirror-maker`: twinlog under the name, the arguments and the exit codes of MirrorMaker 2's own script.

Kafka's connect-mirror-maker.sh, kafka-run-class.sh and class MirrorMaker are the model, so that unit files and
containers run as they are. An unknown key is a warning here, because MirrorMaker 2 ignores it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from twinlog.cli.foreground import ExitCodes, run_flows
from twinlog.cli.kafka_scripts import EXIT_USAGE, java_warnings, read_extra_args, run_as_daemon
from twinlog.config.file_changes import RunningFile
from twinlog.config.file_kind import is_resource
from twinlog.config.queries import checked_file
from twinlog.console.command_log import end_process
from twinlog.console.wrong_file import print_refusal
from twinlog.errors import ConfigError
from twinlog.worker.reload.reloading import ReloadableFile

PROGRAM = "connect-mirror-maker"
EXIT_ARGUMENTS = 255
EXIT_ERROR = 2
# MirrorMaker 2 lacks a mode that ends when all is copied.
EXITS = ExitCodes(failed=EXIT_ERROR, broken=3, nothing=0, held=0)


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
        self.exit(EXIT_ARGUMENTS, f"{self.prog}: error: {message}\n")


def parse(arguments: Sequence[str], environment: Mapping[str, str]) -> MirrorMakerArguments:
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
        help="Only as the first argument: go on in the background, and log to mirrorMaker.out in $LOG_DIR or ./logs.",
    )
    parser.add_argument(
        "--clusters", nargs="+", metavar="CLUSTER", help="Run only flows whose target is one of these clusters."
    )
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


def main() -> None:
    """Run it by the command line of this process."""
    arguments = parse(sys.argv[1:], os.environ)
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
    end_process(run_flows(loaded.config, EXITS, warnings=java_warnings(os.environ), file=again))
