"""`twinlog connect`: a worker of Kafka Connect that runs MirrorMaker 2's three connectors."""

from __future__ import annotations

import logging
import os
import resource
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.cli.heap import share_heap
from twinlog.config.connector import ConnectorFile
from twinlog.config.worker import WorkerConfig, load_worker
from twinlog.console import signals
from twinlog.console.command_log import end_process, log_to_stderr, print_refusal, print_warnings
from twinlog.console.exit_codes import FOUND, UNREACHABLE, WRONG
from twinlog.console.options import Conf, Master, spark_options
from twinlog.console.spark_batch import adopted
from twinlog.errors import ConfigError, EngineError, EngineLostError, RequestError
from twinlog.errors.message_ids import id_of, with_id

if TYPE_CHECKING:
    from twinlog.connect.log4j_file import Log4jFile
    from twinlog.connect.rest.users import Users
    from twinlog.connect.strimzi.follower import ResourceFollower
    from twinlog.connect.worker import Worker
    from twinlog.spark.given_session import GivenSession
    from twinlog.ui.mounted import MountedConsole
    from twinlog.worker.spark_flows import SparkOptions

    Follower = ResourceFollower | Log4jFile

log = logging.getLogger("twinlog")

LOOK_S = 1.0
LEAST_SLOTS = 16
"""Tasks that a Spark in this process runs at once: connectors come while it runs."""


@dataclass(frozen=True, slots=True)
class WorkerExits:
    """A program's exit codes: its address is taken; the worker refused a connector of the command line."""

    listening: int
    connector: int


def connect(
    file: Annotated[
        Path, typer.Argument(metavar="WORKER", help="The properties file of a Connect worker.", show_default=False)
    ],
    connectors: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CONNECTOR",
            help="Connectors of a standalone worker, properties or JSON.",
            show_default=False,
        ),
    ] = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Run a worker of Kafka Connect for MirrorMaker 2's connectors.

    Create connectors over the REST API, for example by `twinlog connectors create`. If WORKER has
    offset.storage.file.filename and lacks group.id, the worker is standalone: name the files of its connectors.

    Exit codes: 0 Ctrl-C (SIGINT) or SIGTERM ended the worker in order; 1 the worker failed; 2 WORKER or a CONNECTOR
    is wrong, before any contact with a cluster; 3 Spark does not start, or another process has the addresses of the
    REST API.

    Example: twinlog connect connect-distributed.properties

    Example: twinlog connect connect-standalone.properties source.properties
    """
    master, given = spark_options(master, conf)
    from twinlog.console.flow_files import read_connectors  # noqa: PLC0415 - --help must not wait for it

    try:
        config = load_worker(file)
        if connectors and config.settings.distributed:
            raise typer.BadParameter(
                f"{file} is for a distributed worker, whose connectors are created over its REST API; a standalone "
                "worker has offset.storage.file.filename and no group.id",
                param_hint="CONNECTOR",
            )
        # The worker logs its warnings about connectors when it has read them.
        found, _ = read_connectors(connectors or [], config)
        users = rest_users(config)
    except ConfigError as error:
        print_refusal(error)
        raise typer.Exit(WRONG) from None
    exits = WorkerExits(listening=UNREACHABLE, connector=WRONG)
    end_process(run_worker(config, users, exits, found, master=master, conf=given))


def allow_many_files() -> None:
    """Let this process have as many open files and connections as it may, as Java does (-XX:+MaxFDLimit): some
    connectors have five each, and many systems begin with 1024."""
    soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        except (ValueError, OSError) as error:
            log.debug("no more than %d open files: %s", soft, error)


def rest_users(config: WorkerConfig) -> Users | None:
    """The users of the REST API; None if it is open to everyone. Raises ConfigError."""
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
    beside: Callable[[Worker], Follower] | None = None,
) -> int:
    """Run a worker with `connectors` until SIGTERM or SIGINT; the exit code. `warnings` are logged with the file's.

    The follower that `beside` makes begins once the worker listens, and ends before the worker.
    """
    log_to_stderr()
    for warning in (*config.warnings, *warnings, *(() if users is None else users.warnings)):
        log.warning("%s", with_id(str(warning), "TW-FILE-21"))
    allow_many_files()
    share_heap()
    asked = threading.Event()

    def stop(number: signal.Signals) -> None:
        if not asked.is_set():
            log.info("stopping (%s)", number.name)
        asked.set()

    def hang_up() -> None:
        log.info("the file is read every second, so SIGHUP is ignored")

    signals.call(stop, hang_up if beside is not None else None)
    try:
        with adopted(master, conf or {}) as given:
            from twinlog.worker.spark_flows import SparkOptions  # noqa: PLC0415 - --help must not wait for it

            bridge = config.settings.bridge and given is None
            spark = SparkOptions(
                master,
                conf or {},
                bridge,
                LEAST_SLOTS,
                any_flow=True,
                listener=config.settings.driver,
                given=given,
            )
            return _run(config, users, exits, connectors, spark, beside, asked)
    except EngineError as error:
        log.error("%s: twinlog ends: %s", id_of(error, "TW-FLOW-07"), error)
        return UNREACHABLE


def _run(
    config: WorkerConfig,
    users: Users | None,
    exits: WorkerExits,
    connectors: Sequence[ConnectorFile],
    spark: SparkOptions,
    beside: Callable[[Worker], Follower] | None,
    asked: threading.Event,
) -> int:
    from twinlog.connect.worker import Worker  # noqa: PLC0415

    try:
        worker = Worker(config, spark, users, asked.set)
        console = _console(config, users, worker)
        if console is not None:
            worker.server.mount_console(console)
        worker.start()
    except ConfigError as error:
        print_warnings(error.warnings)
        log.error("%s", with_id(str(error), "TW-FILE-22"))
        return WRONG
    except OSError as error:
        log.error("%s: the worker failed to start: %s", id_of(error, "TW-WORKER-20"), error)
        return exits.listening
    code = 0
    other = None if beside is None else beside(worker)
    if other is not None:
        other.start()
    try:
        worker.create(connectors, asked)
    except RequestError as error:
        log.error("TW-REST-06: stopping: %s", error)
        code = exits.connector
    else:
        code = _wait(asked, spark.given)
    if other is not None:
        other.stop()
    if console is not None:
        console.close()
    worker.stop()
    if worker.failure is not None:
        log.error("%s", with_id(f"twinlog ends: {worker.failure}", "TW-FLOW-07"))
        return FOUND
    log.info("stopped")
    return code


def _console(config: WorkerConfig, users: Users | None, worker: Worker) -> MountedConsole | None:
    """The console of a worker; None if it is turned off."""
    settings = config.settings
    if not settings.console.enabled:
        return None
    from twinlog.console.flow_files import FlowsOfFile  # noqa: PLC0415 - --help must not wait for it
    from twinlog.ops.connectors.rest import Access  # noqa: PLC0415
    from twinlog.settings.tls import tls_context  # noqa: PLC0415
    from twinlog.ui.mounted import MountedConsole  # noqa: PLC0415

    def flows() -> FlowsOfFile:
        return FlowsOfFile([flow.settings for flow in worker.herder.flows() if not flow.idle], settings)

    def own_api() -> Access:
        known, https = worker.server.advertised, settings.rest.https
        tls = tls_context(https) if known.tls and https is not None else None
        return Access(known.host, known.port, tls=tls)

    return MountedConsole(settings.console, users, flows, own_api)


def _wait(asked: threading.Event, given: GivenSession | None) -> int:
    """Until the worker is to end, or spark-submit's Spark has; the exit code so far."""
    while not asked.wait(LOOK_S if given is not None else None):
        try:
            assert given is not None
            given.require_alive()
        except EngineLostError as error:
            log.error("%s: twinlog ends: %s", id_of(error, "TW-FLOW-07"), error)
            return UNREACHABLE
    return 0
