"""The flows of a running Connect worker, as its REST API has them: a worker of twinlog, of Kafka, or of Strimzi's
operator.

The REST API lacks the names of the worker's group and topics, and the values of secrets. The names come from the
worker's file or from the target (`twinlog.ops.worker_names`), the secrets from the worker's file or from a file with
logins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from twinlog.clock import SYSTEM, Clock
from twinlog.config.connector import DEFAULT_SOURCE, DEFAULT_TARGET, ConnectorFlow, build_connector, connector_kind
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.keys.key import UnknownKeys
from twinlog.config.keys.table import CLIENTS, SECURITY
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.config.text.entries import read_providers, resolve_entry, without_duplicates
from twinlog.config.worker import WorkerConfig, load_worker, worker_of
from twinlog.console.command_log import print_note, print_warning_line
from twinlog.console.exit_codes import end_with
from twinlog.console.flow_files import FlowsOfFile, read_flow_file
from twinlog.errors import ConfigError, TwinlogError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.ops.connectors.rest import ConnectRest, TlsFiles, access
from twinlog.settings.flow import FlowSettings

if TYPE_CHECKING:
    from twinlog.kafka.admin.cluster import Connect
    from twinlog.ops.worker_names import WorkerNames

Configs = Mapping[str, Mapping[str, str]]
"""The settings of connectors, by the name of the connector."""

_DEFAULT_ALIAS = {"source": DEFAULT_SOURCE, "target": DEFAULT_TARGET}
_UNKNOWN = "unknown"
_MASKED = re.compile(r"""(?:^|=\s*["'])(?:\[hidden\]|\*{3,})(?:$|["'])""")
_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
_WAY_OUT = (
    "the key for the cluster's alias in the file of --client-config, for example {}.{} = ...; or run the command where "
    "the worker runs, with the worker's file before --url"
)


def read_flows_asked(
    file: Path | None,
    connectors: Sequence[Path],
    secrets: Path | None,
    url: str | None,
    logins: Path | None = None,
    *,
    unknown_keys: UnknownKeys = "fail",
    whole: bool = False,
) -> FlowsOfFile:
    """The flows of a command: of its FILE, or of the connectors of the worker at `url`.

    With `whole` the names of the worker's group and of all its topics are needed. Raises ConfigError and BadParameter;
    any other error of the worker ends the command.
    """
    if url is None:
        if logins is not None:
            raise typer.BadParameter("it counts only with --url", param_hint="--client-config")
        if file is None:
            raise typer.BadParameter("missing; name a file, or a worker with --url", param_hint="FILE")
        return read_flow_file(file, connectors, secrets, unknown_keys=unknown_keys)
    if connectors:
        raise typer.BadParameter("the connectors come from the worker; leave out their files", param_hint="--url")
    try:
        return read_running(url, file, logins, print_note, SYSTEM, whole=whole)
    except ConfigError:
        raise
    except TwinlogError as error:
        end_with(error)


def read_running(
    url: str,
    worker: Path | None,
    logins: Path | None,
    note: Callable[[str], None],
    clock: Clock,
    *,
    connect: Connect | None = None,
    whole: bool = False,
) -> FlowsOfFile:
    """The flows of the connectors that the worker at `url` has; `worker` is its file, if it is here.

    Without `worker` the names of its group and topics are looked up on the target. Connectors of other classes are left
    out, and so are disabled connectors. Raises ConfigError for a wrong file or address and for a secret that only the
    worker knows, and TwinlogError when the worker or its cluster fails to answer.
    """
    config = None if worker is None else _worker_file(worker)
    secure = url.lower().startswith("https:")
    rest = ConnectRest(
        access(url, TlsFiles.of_environment(os.environ) if secure else TlsFiles(), warn=note), note, clock=clock
    )
    found = _configs(rest)
    if logins is not None:
        found = _with_logins(found, _read_logins(logins, _aliases(found)))
    if config is not None:
        return _flows(found, config, rest.access.url, worker_is_elsewhere=False)
    connection = _connection(found)
    if connection is None:
        _refuse_unnamed_target(found, rest.access.url)
    guessed = _flows(found, _worker(connection or {}, rest.access.url, None), rest.access.url)
    names = _find_names(guessed.flows, rest, connect)
    if names.group is None or names.config is None or names.status is None:
        if whole:
            raise TwinlogError(names.missing(rest.access.url), message_id="TW-REST-09")
        print_warning_line(f"TW-REST-09: {names.missing(rest.access.url)}")
    known = _flows(found, _worker(connection or {}, rest.access.url, names), rest.access.url)
    return known if names.group is not None and names.status is not None else replace(known, worker=None)


def _worker_file(path: Path) -> WorkerConfig:
    if kind_of(path) is not FileKind.WORKER:
        expected = "the file of a Connect worker beside --url, for example connect-distributed.properties"
        problem = ConfigProblem(str(path), None, "", "another kind of file", expected, MistakeKind.OTHER_PROGRAM)
        raise ConfigError([problem])
    return load_worker(path)


def _configs(rest: ConnectRest) -> Configs:
    """The settings of the worker's connectors of MirrorMaker 2."""
    answer = rest.get("connectors", expand="info")
    written = {
        name: {key: str(value) for key, value in known["info"]["config"].items() if value is not None}
        for name, known in sorted(dict(answer or {}).items())
    }
    return {
        name: config
        for name, config in written.items()
        if connector_kind(config.get("connector.class", "")) is not None
    }


def _flows(configs: Configs, config: WorkerConfig, url: str, *, worker_is_elsewhere: bool = True) -> FlowsOfFile:
    """The flows of these connectors, which the worker of `config` runs."""
    flows: list[FlowSettings] = []
    warnings: list[ConfigWarning] = list(config.warnings)
    problems: list[ConfigProblem] = []
    for name, written in configs.items():
        hidden = {key: "the worker hides the value" for key, value in written.items() if _MASKED.search(value)}
        refused: Sequence[ConfigProblem] = ()
        built: ConnectorFlow | None = None
        try:
            built = build_connector(name, written, config)
            found = built.warnings
        except ConfigError as error:
            refused, found = error.problems, tuple(error.warnings)
        hidden |= {
            one.key: f"only the worker knows this secret: {one.text}"
            for one in found
            if one.kind is MistakeKind.UNDECLARED
        }
        problems += [_only_there(name, written, key, text, MistakeKind.UNDECLARED) for key, text in hidden.items()]
        for one in refused:
            if one.kind is MistakeKind.STORE and worker_is_elsewhere:
                problems.append(_only_there(name, written, one.key, one.described, MistakeKind.STORE))
            elif one.key not in hidden:
                problems.append(replace(one, file=name, line=None))
        warnings += [one for one in found if one.kind is not MistakeKind.UNDECLARED]
        if built is not None and not built.idle:
            flows.append(built.settings)
    if problems:
        raise ConfigError(problems, warnings)
    if not flows:
        expected = "connectors of MirrorMaker 2 that are enabled"
        raise ConfigError([ConfigProblem(url, None, "", "no such connector", expected, MistakeKind.NOTHING_RUNS)])
    return FlowsOfFile(flows, config.settings, tuple(dict.fromkeys(warnings)))


def _only_there(name: str, config: Mapping[str, str], key: str, text: str, kind: MistakeKind) -> ConfigProblem:
    """The problem of a secret or a file that only the worker's host has."""
    side = "source" if key.startswith("source.") else "target"
    setting = next((one for one in SECURITY.exact if key.endswith(f".{one}")), "sasl.jaas.config")
    return ConfigProblem(name, None, key, text, _WAY_OUT.format(_alias(config, side), setting), kind)


# Logins of another file.


def _alias(config: Mapping[str, str], side: str) -> str:
    return config.get(f"{side}.cluster.alias", "").strip() or _DEFAULT_ALIAS[side]


def _aliases(configs: Configs) -> list[str]:
    return list(dict.fromkeys(_alias(config, side) for config in configs.values() for side in _DEFAULT_ALIAS))


def _read_logins(path: Path, aliases: Collection[str]) -> Mapping[str, Mapping[str, str]]:
    """The settings of connections in a file of lines `ALIAS.KEY = VALUE`, by alias. Raises ConfigError."""
    warnings: list[ConfigWarning] = []
    problems: list[ConfigProblem] = []
    last = without_duplicates(read_properties(path), warnings)
    providers = read_providers(last, str(path), problems, warnings)
    found: dict[str, dict[str, str]] = {}
    for key, entry in last.items():
        if key.startswith("config.providers"):
            continue
        alias = max((one for one in aliases if key.startswith(f"{one}.")), key=len, default=None)
        setting = "" if alias is None else key.removeprefix(f"{alias}.")
        if alias is None or setting not in SECURITY.exact:
            expected = f"ALIAS.KEY with a key of a connection and an alias of {', '.join(aliases)}"
            problems.append(entry.problem("no setting of a connection", expected, MistakeKind.OTHER_ALIAS))
            continue
        value = resolve_entry(entry, SECURITY.find_key(setting), providers, warnings)
        if value.unresolved is not None:
            problems.append(entry.problem(value.unresolved, value.way_out, MistakeKind.LOST_REFERENCE))
        found.setdefault(alias, {})[setting] = value.value
    if problems:
        raise ConfigError(problems, warnings)
    return found


def _with_logins(configs: Configs, logins: Mapping[str, Mapping[str, str]]) -> Configs:
    """The same connectors with other settings of their connections, for all their clients."""
    found = {}
    for name, config in configs.items():
        new = dict(config)
        for side in _DEFAULT_ALIAS:
            for setting, value in logins.get(_alias(config, side), {}).items():
                for client in CLIENTS:
                    new.pop(f"{side}.{client}.{setting}", None)
                    new.pop(f"{client}.{setting}", None)
                    if side == "target":
                        new.pop(f"{client}.override.{setting}", None)
                new[f"{side}.cluster.{setting}"] = value
        found[name] = new
    return found


# A worker whose file is elsewhere.


def _connection(configs: Configs) -> Mapping[str, str] | None:
    """The settings of the target's connection of the first connector that has any; connectors that copy come first.

    The target of MirrorMaker 2's connectors is the worker's own cluster.
    """
    prefix = "target.cluster."
    in_order = sorted(configs.values(), key=lambda one: connector_kind(one["connector.class"]) != "source")
    for config in in_order:
        found = {
            key.removeprefix(prefix): value
            for key, value in config.items()
            if key.startswith(prefix) and key.removeprefix(prefix) in SECURITY.exact
        }
        if "bootstrap.servers" in found:
            return found
    return None


def _refuse_unnamed_target(configs: Configs, url: str) -> None:
    """Raise ConfigError if there are connectors, as they lack the address of their target."""
    if configs:
        expected = "the worker's file before --url: its cluster is the target of these connectors"
        raise ConfigError([ConfigProblem(url, None, "target.cluster.bootstrap.servers", "missing", expected)])


def _worker(connection: Mapping[str, str], url: str, names: WorkerNames | None) -> WorkerConfig:
    """The settings of a worker by its names; `names` None means that they are still unknown."""
    written = {
        "bootstrap.servers": "unknown:9092",
        **connection,
        "group.id": (names and names.group) or _UNKNOWN,
        "config.storage.topic": (names and names.config) or f"{_UNKNOWN}-config",
        "offset.storage.topic": (names and names.offset) or f"{_UNKNOWN}-offset",
        "status.storage.topic": (names and names.status) or f"{_UNKNOWN}-status",
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
    }
    found = worker_of([PropertyEntry(key, value, url, None, value) for key, value in written.items()], url)
    return replace(found, warnings=())


def _find_names(flows: Sequence[FlowSettings], rest: ConnectRest, connect: Connect | None) -> WorkerNames:
    from twinlog.kafka.admin.cluster import ClusterAdmin  # noqa: PLC0415 - Kafka's library is slow to import for --help
    from twinlog.ops.worker_names import find_names  # noqa: PLC0415

    statuses = dict(rest.get("connectors", expand="status") or {}).values()
    workers = {str(one["status"]["connector"]["worker_id"]) for one in statuses if "status" in one}
    copying = next((flow for flow in flows if flow.kind == "source"), flows[0])
    needed = any(flow.kind == "source" and flow.offset_storage_topic == f"{_UNKNOWN}-offset" for flow in flows)
    admin = (connect or ClusterAdmin)(copying.target, copying.target_admin.client)
    try:
        return find_names(admin, {flow.name for flow in flows}, workers, positions=needed)
    finally:
        admin.close()
