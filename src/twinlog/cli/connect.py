"""`twinlog connect`: a worker of Kafka Connect that runs MirrorMaker 2's three connectors."""

from __future__ import annotations

import logging
import os
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from twinlog.cli import signals
from twinlog.cli.foreground import end_process, log_to_stderr, print_refusal, print_warnings
from twinlog.cli.run import EXIT_CONFIG, spark_master, spark_settings
from twinlog.config.worker import WorkerConfig, load_worker
from twinlog.errors import ConfigError

log = logging.getLogger("twinlog")

EXIT_START = 3
LEAST_SLOTS = 16
"""Tasks that a Spark in this process runs at once: connectors come while it runs."""


def connect(
    file: Annotated[
        Path, typer.Argument(metavar="WORKER", help="A Connect worker's properties file.", show_default=False)
    ],
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Spark's master; without it Spark runs in this process.", show_default=False),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="A Spark setting; may be given several times.", show_default=False),
    ] = None,
) -> None:
    """Run a worker of Kafka Connect for MirrorMaker 2's connectors, which are created over its REST API.

    Ends with code 0 after Ctrl-C or SIGTERM, 2 when WORKER is wrong, before any cluster is contacted, and 3 when it
    cannot listen at its addresses.

    Example: twinlog connect connect-distributed.properties
    """
    given = spark_settings(conf or [])
    master = spark_master(master, given)
    try:
        config = load_worker(file)
    except ConfigError as error:
        print_refusal(error)
        raise typer.Exit(EXIT_CONFIG) from None
    end_process(_run(config, master, given))


def _run(config: WorkerConfig, master: str | None, conf: dict[str, str]) -> int:
    log_to_stderr(table=False)
    for warning in config.warnings:
        log.warning("%s", warning)
    asked = threading.Event()

    def stop(number: signal.Signals) -> None:
        log.info("stopping (%s)", number.name)
        asked.set()

    signals.call(stop)
    from twinlog.connect.users import EXTENSION, read_users  # noqa: PLC0415 - --help must not wait for it
    from twinlog.connect.worker import Worker  # noqa: PLC0415
    from twinlog.driver.spark_flows import SparkOptions  # noqa: PLC0415

    users = None
    try:
        if any(name.strip().endswith(EXTENSION) for name in config.settings.rest.extension_classes):
            users = read_users(os.environ.get("KAFKA_OPTS", ""))
        worker = Worker(config, SparkOptions(master, conf, least_slots=LEAST_SLOTS), users)
        worker.start()
    except ConfigError as error:
        print_warnings(error.warnings)
        log.error("%s", error)
        return EXIT_CONFIG
    except OSError as error:
        log.error("the worker cannot listen: %s", error)
        return EXIT_START
    asked.wait()
    worker.stop()
    return 0
