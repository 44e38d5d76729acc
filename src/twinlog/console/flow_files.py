"""The flows of any file that `check` reads, for commands that only look at flows of other processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twinlog.config import load
from twinlog.config.connector import build_connector
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.worker import load_worker
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.settings.flow import FlowSettings
from twinlog.settings.worker import WorkerSettings

FILE_HELP = "A MirrorMaker 2 properties file, Strimzi's KafkaMirrorMaker2, or the file of a Connect worker."
CONNECTOR_HELP = "Connectors of the worker, properties or JSON."


@dataclass(frozen=True, slots=True)
class FlowsOfFile:
    """The flows of a file, and the worker that runs them, if they are its connectors."""

    flows: list[FlowSettings]
    worker: WorkerSettings | None = None


def read_flows(path: Path, connectors: Sequence[Path] = (), secrets: Path | None = None) -> list[FlowSettings]:
    """The flows alone; see `read_flow_file`."""
    return read_flow_file(path, connectors, secrets).flows


def read_flow_file(path: Path, connectors: Sequence[Path] = (), secrets: Path | None = None) -> FlowsOfFile:
    """The flows of the file at `path`, or of a worker's file the flows of `connectors`; idle flows are left out.

    Raises ConfigError with every problem found. Works offline.
    """
    kind = kind_of(path)
    if kind in (FileKind.MIRROR, FileKind.RESOURCE) and connectors:
        expected = "files of connectors only after that of a Connect worker"
        raise ConfigError([ConfigProblem(str(path), None, "(file)", f"{connectors[0]} after it", expected)])
    if kind is FileKind.MIRROR:
        return FlowsOfFile(list(load(path).flows))
    if kind is FileKind.RESOURCE:
        from twinlog.config.strimzi.load import load_resource  # noqa: PLC0415 - YAML is slow to import

        resource = load_resource(path, secrets)
        return FlowsOfFile([flow.settings for flow in resource.flows if not flow.idle], resource.worker.settings)
    if kind is FileKind.CONNECTOR or not connectors:
        # The places of positions and records depend on the worker.
        expected = f"the worker's file and those of its connectors: FILE CONNECTOR..., such as {path} source.json"
        if kind is FileKind.CONNECTOR:
            expected = f"the file of its worker before it, such as connect-distributed.properties {path}"
        raise ConfigError([ConfigProblem(str(path), None, "(file)", "it alone names no flow", expected)])
    from twinlog.console.worker_files import read_connectors  # noqa: PLC0415 - only who has connectors waits for it

    worker = load_worker(path)
    found, _ = read_connectors(connectors, worker, nameless=True)
    flows = [build_connector(one.name, one.config, worker) for one in found]
    return FlowsOfFile([flow.settings for flow in flows if not flow.idle], worker.settings)
