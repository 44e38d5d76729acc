"""`twinlog check` for the files of Connect: the file of a worker, the files of connectors, and Strimzi's resource."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from twinlog.cli.summary import connector_summary
from twinlog.config.connector import build_connector
from twinlog.config.file_kind import OFFSET_FILE
from twinlog.config.properties import parse_properties
from twinlog.config.queries import check_queries
from twinlog.config.worker import load_worker, worker_of
from twinlog.errors import ConfigError
from twinlog.settings.worker import WorkerSettings

_ANY_CLUSTER = "its-own-cluster:9092"
_ANY_WORKER = f"""\
bootstrap.servers = {_ANY_CLUSTER}
{OFFSET_FILE} = offsets
key.converter = org.apache.kafka.connect.converters.ByteArrayConverter
value.converter = org.apache.kafka.connect.converters.ByteArrayConverter
"""


def check_worker(worker: Path | None, connectors: Sequence[Path]) -> tuple[list[str], list[str]]:
    """The actions of a worker and its connectors, in lines for people, and warnings about their files.

    If the file of a worker is missing, connectors are checked as any worker would, with references to secrets
    unresolved. Raises ConfigError with the problems of all files.
    """
    from twinlog.console.worker_files import read_connectors  # noqa: PLC0415 - only who checks connectors waits for it

    if worker is None:
        config = worker_of(parse_properties(_ANY_WORKER, "(any worker)"), "(any worker)", distributed=False)
    else:
        config = load_worker(worker)
    try:
        found, warnings = read_connectors(connectors, config, nameless=True)
    except ConfigError as error:
        raise ConfigError(error.problems, _of_this_cluster(error.warnings)) from None
    lines = [] if worker is None else _worker(config.settings)
    flows = [build_connector(one.name, one.config, config) for one in found]
    for flow in flows:
        lines += connector_summary(flow.settings, idle=flow.idle)
    files = [path for path in (worker, *connectors) if path is not None]
    unchecked = check_queries([flow.settings for flow in flows], files[0], files[1:])
    return lines, [*_of_this_cluster((*config.warnings, *warnings)), *unchecked]


def _of_this_cluster(warnings: Sequence[str]) -> list[str]:
    """Remove the warnings about the cluster of an unknown worker."""
    return [warning for warning in warnings if _ANY_CLUSTER not in warning]


def check_resource(path: Path, secrets: Path | None) -> tuple[list[str], list[str]]:
    """The flows of Strimzi's resource, in lines for people, and warnings. Raises ConfigError with its problems."""
    from twinlog.config.strimzi.load import load_resource  # noqa: PLC0415 - YAML is slow to import

    config = load_resource(path, secrets)
    lines = _worker(config.worker.settings)
    for flow, planned in zip(config.flows, config.resource.connectors, strict=True):
        lines += connector_summary(flow.settings, idle=flow.idle)
        if planned.state != "RUNNING":
            lines.append(f"  state      {planned.state.lower()}")
    return lines, [*config.warnings, *check_queries([flow.settings for flow in config.flows], path)]


def _worker(worker: WorkerSettings) -> list[str]:
    group = worker.group
    lines = [
        "standalone worker" if group is None else f"worker of group {group.group_id}",
        f"  cluster    {', '.join(worker.client.bootstrap_servers)}",
        f"  listens    {', '.join(f'{one.scheme}://{one.host}:{one.port}' for one in worker.rest.listeners)}",
    ]
    if group is None:
        lines.append(f"  offsets    in the file {worker.offset_file}")
    else:
        topics = (group.config_storage, group.offset_storage, group.status_storage)
        lines.append(f"  state      in {', '.join(topic.name for topic in topics)}")
    return lines
