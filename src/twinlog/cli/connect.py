"""`twinlog connect`: a worker of Kafka Connect that runs MirrorMaker 2's three connectors."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli import signals
from twinlog.cli.foreground import end_process, log_to_stderr, print_refusal, print_warnings
from twinlog.cli.run import EXIT_CONFIG
from twinlog.cli.spark_options import Conf, Master, spark_options
from twinlog.config.connector_file import ConnectorFile
from twinlog.config.worker import WorkerConfig, load_worker
from twinlog.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from twinlog.connect.rest.users import Users

log = logging.getLogger("twinlog")

EXIT_FAILED = 1
LEAST_SLOTS = 16
"""Tasks that a Spark in this process runs at once: connectors come while it runs."""


@dataclass(frozen=True, slots=True)
class WorkerExits:
    """A program's exit codes: it cannot listen; the worker refused a connector that it was given."""

    listening: int
    connector: int


def connect(
    file: Annotated[
        Path, typer.Argument(metavar="WORKER", help="A Connect worker's properties file.", show_default=False)
    ],
    connectors: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[CONNECTOR]...",
            help="Connectors that a standalone worker runs, each a properties or a JSON file.",
            show_default=False,
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Run a worker of Kafka Connect for MirrorMaker 2's connectors, which are created over its REST API.

    With `offset.storage.file.filename` in WORKER and no `group.id` it is a standalone worker, which forgets connectors
    when it ends, and is given those that it runs as files.

    Ends with code 0 after Ctrl-C or SIGTERM, 1 when the worker itself failed, 2 when WORKER or a CONNECTOR is wrong,
    before any cluster is contacted, and 3 when it cannot listen at its addresses.

    Example: twinlog connect connect-distributed.properties
    """
    master, given = spark_options(master, conf)
    from twinlog.cli.worker_files import read_connectors  # noqa: PLC0415 - --help must not wait for it

    try:
        config = load_worker(file)
        if connectors and config.settings.distributed:
            raise typer.BadParameter(
                f"{file} is for a distributed worker, whose connectors are created over its REST API; a standalone "
                "worker has offset.storage.file.filename and no group.id",
                param_hint="CONNECTOR",
            )
        # What is doubtful about them is logged by the worker once it has them.
        found, _ = read_connectors(connectors or [], config)
        users = rest_users(config)
    except ConfigError as error:
        print_refusal(error)
        raise typer.Exit(EXIT_CONFIG) from None
    exits = WorkerExits(listening=3, connector=EXIT_CONFIG)
    end_process(run_worker(config, users, exits, found, master=master, conf=given))


def rest_users(config: WorkerConfig) -> Users | None:
    """Who may use the REST API; None where it asks for no login. Raises ConfigError."""
    if not config.settings.rest.extension_classes:
        return None
    from twinlog.connect.users import read_users  # noqa: PLC0415 - --help must not wait for it

    return read_users(os.environ.get("KAFKA_OPTS", ""))


def run_worker(
    config: WorkerConfig,
    users: Users | None,
    exits: WorkerExits,
    connectors: Sequence[ConnectorFile] = (),
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
) -> int:
    """Run a worker with `connectors` until SIGTERM or SIGINT; the exit code. `warnings` are logged with the file's."""
    log_to_stderr(table=False)
    for warning in (*config.warnings, *warnings, *(() if users is None else users.doubts)):
        log.warning("%s", warning)
    asked = threading.Event()

    def stop(number: signal.Signals) -> None:
        if not asked.is_set():
            log.info("stopping (%s)", number.name)
        asked.set()

    signals.call(stop)
    from twinlog.connect.worker import Worker  # noqa: PLC0415
    from twinlog.driver.spark_flows import SparkOptions  # noqa: PLC0415

    try:
        spark = SparkOptions(master, conf or {}, config.settings.warm_up, LEAST_SLOTS)
        worker = Worker(config, spark, users, asked.set)
        worker.start()
    except ConfigError as error:
        print_warnings(error.warnings)
        log.error("%s", error)
        return EXIT_CONFIG
    except OSError as error:
        log.error("the worker does not start: %s", error.strerror or error)
        return exits.listening
    code = 0
    try:
        worker.create(connectors, asked)
    except RequestError as error:
        log.error("stopping: %s", error)
        code = exits.connector
    else:
        asked.wait()
    worker.stop()
    if worker.failure is not None:
        log.error("twinlog ends: %s", worker.failure)
        return EXIT_FAILED
    return code
