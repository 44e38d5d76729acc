"""`twinlog run` of Strimzi's resource: a Connect worker whose connectors follow the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import typer

from twinlog.cli.connect import WorkerExits, run_worker
from twinlog.cli.foreground import with_listeners
from twinlog.clock import SYSTEM, wall_ms
from twinlog.config.queries import check_queries
from twinlog.config.strimzi.load import ResourceConfig, load_resource
from twinlog.connect.strimzi.follower import ResourceFollower
from twinlog.connect.users import users_in
from twinlog.connect.worker import Worker
from twinlog.console.command_log import end_process, print_refusal
from twinlog.console.exit_codes import UNREACHABLE, WRONG
from twinlog.errors import ConfigError

LEAST_MEGABYTES = 512
"""The least memory with which Spark starts."""

_MEGABYTE = 1024 * 1024


def run_resource(
    file: Path,
    secrets: Path | None,
    listen: str,
    master: str | None,
    conf: Mapping[str, str],
    metrics: list[str] | None = None,
    offsets: Path | None = None,
    users: Path | None = None,
) -> NoReturn:
    """Run the resource until SIGTERM or SIGINT, and end the process with the exit code; `metrics` are addresses that
    serve these beside the worker's own. Lists for annotations go to `offsets`. The users in the file `users` may use
    the REST API; if `users` is None, all may."""
    load = partial(load_resource, file, secrets, listen)
    try:
        config = load()
        unchecked = check_queries([flow.settings for flow in config.flows], file)
        known = None if users is None else users_in(users)
    except ConfigError as error:
        print_refusal(error)
        raise typer.Exit(WRONG) from None
    worker_settings = config.worker.settings
    worker_settings = replace(worker_settings, metrics=with_listeners(worker_settings.metrics, metrics))

    def follow(worker: Worker) -> ResourceFollower:
        def set_level(logger: str, level: str) -> None:
            worker.levels.set_level(logger, level, wall_ms(SYSTEM))

        return ResourceFollower(file, load, config, worker.herder, set_level, SYSTEM, offsets)

    # The worker's own warnings are among the warnings of the resource.
    warnings = [str(warning) for warning in config.warnings if warning not in config.worker.warnings]
    warnings += map(str, unchecked)
    exits = WorkerExits(listening=UNREACHABLE, connector=WRONG)
    if (warning := memory_warning(config)) is not None and "spark.driver.memory" not in conf:
        warnings.append(f"{file}: {warning}")
    settings = {**driver_memory(config), **conf}
    own = replace(config.worker, settings=worker_settings)
    end_process(run_worker(own, known, exits, master=master, conf=settings, warnings=warnings, beside=follow))


def driver_memory(config: ResourceConfig) -> dict[str, str]:
    """Spark's setting for `jvmOptions.-Xmx`, in megabytes; a value too small for Spark is left out."""
    text = config.resource.driver_memory
    if text is None:
        return {}
    number, unit = int(text.rstrip("mg")), text[-1]
    megabytes = {"m": number, "g": number * 1024}.get(unit, number // _MEGABYTE)
    return {"spark.driver.memory": f"{megabytes}m"} if megabytes >= LEAST_MEGABYTES else {}


def memory_warning(config: ResourceConfig) -> str | None:
    """The warning about a `jvmOptions.-Xmx` that is left out; None if it is kept."""
    text = config.resource.driver_memory
    if text is None or driver_memory(config):
        return None
    return (
        f"spec.jvmOptions.-Xmx: {text} is too little for Spark, which gets {LEAST_MEGABYTES}m instead: write that, or "
        "leave the key out"
    )
