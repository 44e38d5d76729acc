"""From the configuration of a connector of a Connect worker to the flow that it asks for.

A connector is submitted over REST, or is a file on a worker's command line: properties, or JSON in either form of the
REST API. As in Connect's class ConnectStandalone, JSON is recognised by its content, and a file of properties has the
name in it. The worker's policy decides which settings of Connect's own clients a connector may override (KIP-458,
KIP-1188).
"""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal, cast, get_args

from twinlog.config.file_kind import FileKind, is_json, require_kind
from twinlog.config.flow.flow import build_flow
from twinlog.config.keys.connector import CLASS_KEYS
from twinlog.config.keys.key import Effect, Key
from twinlog.config.keys.scope import connector_key, spelled
from twinlog.config.keys.table import CLIENTS, CONNECTOR, SECURITY, WORKER
from twinlog.config.properties import PropertyEntry, parse_properties, require_text
from twinlog.config.text.config_reader import ConfigReader, Problems
from twinlog.config.text.entries import check_value, resolve_entry
from twinlog.config.text.precedence import resolve_connector
from twinlog.config.worker import WorkerConfig
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.model.types import Alias
from twinlog.settings.flow import ConnectorKind, FlowSettings
from twinlog.settings.worker import OverridePolicy, WorkerSettings

_FORMS = "the body of a POST with name and config, or that of a PUT, with values that are text, numbers or booleans"


InitialState = Literal["RUNNING", "PAUSED", "STOPPED"]


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """A connector as it would be submitted; `initial_state` is the state in a POST, if given."""

    name: str
    config: dict[str, str]
    initial_state: InitialState | None = None


def read_connector_file(path: str | Path, name: str | None = None) -> ConnectorFile:
    """The connector that the file at `path` describes, called `name` if the file lacks a name. Raises ConfigError."""
    file = str(path)
    try:
        data = Path(path).read_bytes().removeprefix(BOM_UTF8)
    except OSError as error:
        found = str(error.strerror or error)
        problem = ConfigProblem(file, None, "", found, "a readable file of a connector", MistakeKind.UNREADABLE_FILE)
        raise ConfigError([problem]) from None
    require_text(data, Path(path))
    require_kind(path, FileKind.CONNECTOR)
    if is_json(data):
        return _from_json(data, file, name)
    return parse_connector(data.decode("iso-8859-1"), file, name)


def parse_connector(text: str, origin: str, name: str | None = None) -> ConnectorFile:
    """The connector that `text` describes, as JSON or as properties; messages name it `origin`. Raises ConfigError."""
    if is_json(text.encode("utf-8", "replace")):
        return _from_json(text, origin, name)
    entries = parse_properties(text, origin)
    return _named({entry.key: entry.value for entry in entries}, origin, name)


def line_of(text: str, key: str) -> int | None:
    """The first line of a connector's file that has the key, counted from 1; None if every line lacks it."""
    for number, line in enumerate(text.splitlines(), 1):
        word = line.strip().lstrip("{, ").lstrip()
        if word.startswith((f'"{key}"', f"{key}=", f"{key} ", f"{key}:")) or f'"{key}":' in line:
            return number
    return None


def _from_json(data: bytes | str, file: str, name: str | None) -> ConnectorFile:
    try:
        found = json.loads(data)
    except json.JSONDecodeError as error:
        raise ConfigError([_broken_json(error, file)]) from None
    except ValueError as error:
        problem = ConfigProblem(file, None, "", f"broken JSON: {error}", "save it in UTF-8", MistakeKind.BROKEN_SYNTAX)
        raise ConfigError([problem]) from None
    except RecursionError:
        text, way_out = "the JSON is nested too deep", "write flat JSON"
        raise ConfigError([ConfigProblem(file, None, "", text, way_out, MistakeKind.BROKEN_SYNTAX)]) from None
    if not isinstance(found, dict):
        raise ConfigError([ConfigProblem(file, None, "", "a JSON list", _FORMS)])
    nested = found.get("config")
    config = nested if isinstance(nested, dict) else found
    wrong = next((key for key, value in config.items() if not isinstance(value, str | int | float | bool)), None)
    if wrong is not None:
        raise ConfigError([ConfigProblem(file, None, wrong, "null or nested", _FORMS)])
    texts = {key: _text(value) for key, value in config.items()}
    if config is found:
        return _named(texts, file, name)
    outer = found.get("name")
    return _named(texts, file, name if outer is None else str(outer), _state(found.get("initial_state"), file))


def _broken_json(error: json.JSONDecodeError, file: str) -> ConfigProblem:
    text, before = error.doc, error.doc[: error.pos].rstrip()
    line, kind = before.count("\n") + 1, MistakeKind.BROKEN_SYNTAX
    after = text[error.pos :].lstrip()[:1]
    if before.endswith(",") and after in ("}", "]"):
        return ConfigProblem(
            file, line, "", f"broken JSON: a comma before the closing {after}", "remove the comma", kind
        )
    if error.msg.startswith("Expecting ',' delimiter"):
        return ConfigProblem(file, line, "", "broken JSON: a comma is missing at the end of this line", "add it", kind)
    broken = f"broken JSON: {error.msg}, at character {error.colno}"
    return ConfigProblem(file, error.lineno, "", broken, "correct this line", kind)


def _state(found: object, file: str) -> InitialState | None:
    if found is None:
        return None
    state = next((state for state in get_args(InitialState) if state == str(found).upper()), None)
    if state is None:
        problem = ConfigProblem(file, None, "initial_state", repr(found), ", ".join(get_args(InitialState)))
        raise ConfigError([problem])
    return cast(InitialState, state)


def _text(value: str | float | bool) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _named(config: dict[str, str], file: str, name: str | None, state: InitialState | None = None) -> ConnectorFile:
    """`name` is how it is called beside its configuration."""
    inner, outer = config.get("name", "").strip(), (name or "").strip()
    if inner and outer and inner != outer:
        raise ConfigError([ConfigProblem(file, None, "name", repr(inner), f"{outer!r}, or an absent name")])
    if not inner and not outer:
        raise ConfigError([ConfigProblem(file, None, "name", "missing", "the name of the connector")])
    return ConnectorFile(inner or outer, {**config, "name": inner or outer}, state)


_PRINCIPAL = ("sasl.jaas.config", "sasl.mechanism", "security.protocol")
_POLICY = "connector.client.config.override.policy"
_ALLOWLIST = "connector.client.config.override.allowlist"
_WORDS = ("producer", "consumer", "admin")


def overrides(entries: Mapping[str, PropertyEntry], worker: WorkerSettings) -> list[tuple[str, str]]:
    """The overrides that Connect asks its policy about, each as the client's word and the setting.

    A source connector has only a producer, unless its offsets are in a topic of its own or written in transactions
    (class AbstractHerder).
    """
    topic = entries.get("offsets.storage.topic")
    more = worker.exactly_once == "enabled" or (topic is not None and bool(topic.value.strip()))
    prefixes = {word: f"{word}.override." for word in (_WORDS if more else _WORDS[:1])}
    return [
        (word, name.removeprefix(prefix))
        for name in entries
        for word, prefix in prefixes.items()
        if name.startswith(prefix)
    ]


def check_overrides(entries: Mapping[str, PropertyEntry], worker: WorkerSettings, problems: Problems) -> None:
    """Refuses each override that the worker's policy forbids, and names the allowed overrides."""
    allowed = _allowed(worker.override_policy, worker.override_allowlist)
    if allowed is None:
        return
    for word, setting in overrides(entries, worker):
        if setting not in allowed:
            where = f"{_POLICY} = {worker.override_policy}"
            where += f" and {_ALLOWLIST}" if worker.override_policy == "Allowlist" else ""
            may = f"only {', '.join(allowed)} to be overridden" if allowed else "zero settings to be overridden"
            problems.refuse(entries[f"{word}.override.{setting}"], "forbidden by this worker", f"{may} ({where})")


def _allowed(policy: OverridePolicy, allowlist: tuple[str, ...]) -> tuple[str, ...] | None:
    """The settings that a policy allows; None for all."""
    if policy == "All":
        return None
    return {"None": (), "Principal": _PRINCIPAL, "Allowlist": allowlist}[policy]


_READS = "the consumer that reads records takes source.consumer.{}"
_WRITES = "MirrorMaker 2 writes offset syncs with it; the producer that writes records takes producer.override.{}"
_ASKS = "write source.admin.{0} or target.admin.{0}"
_OF_WORKER = "it is in the worker's file"
_NO_EFFECT = {
    "producer.": _WRITES,
    "source.producer.": _WRITES,
    "target.producer.": _WRITES,
    "consumer.override.": _READS,
    "target.consumer.": _READS,
    "admin.override.": _ASKS,
}


def no_effect(name: str, prefix: str) -> str | None:
    """The reason why the key `name`, which has `prefix` in front, is ignored here, and how to write it; None if it
    counts."""
    if prefix in _NO_EFFECT:
        return _NO_EFFECT[prefix].format(name.removeprefix(prefix))
    if prefix in {"source.cluster.", "target.cluster."} and connector_key(name)[0] is None:
        # Strimzi's operator writes the settings of its worker with the prefix of the target, too.
        return None if WORKER.find_key(name.removeprefix(prefix)) is None else _OF_WORKER
    if prefix or CONNECTOR.find_key(name) is not None:
        return None
    if SECURITY.find_key(name) is not None:
        return f"clients take it from their cluster; write source.cluster.{name} or target.cluster.{name}"
    if name.startswith("config.providers"):
        return "references are resolved by the providers of the worker's file"
    if name == "clusters":
        return "a connector has the two of source.cluster.alias and target.cluster.alias"
    if WORKER.find_key(name) is not None:
        return _OF_WORKER
    return None


@lru_cache(maxsize=256)
def unknown_key(name: str) -> str:
    """Words for a message: the key that was probably meant instead of `name`."""
    for side in ("source", "target"):
        # `source.cluster.admin.sasl.mechanism` and its like look as if they had to work.
        rest = name.removeprefix(f"{side}.cluster.")
        word = rest.partition(".")[0]
        if rest != name and word in CLIENTS:
            return f"did you mean {side}.{rest}?"
    return spelled(name, _names(), otherwise="")


@cache
def _names() -> tuple[str, ...]:
    sides = [f"{side}.cluster.{name}" for side in ("source", "target") for name in SECURITY.exact]
    clients = [
        f"{prefix}{name}"
        for word, table in CLIENTS.items()
        for name in table.exact
        for prefix in (f"source.{word}.", f"target.{word}.", f"{word}.override.")
    ]
    return (*CONNECTOR.exact, *sides, *clients)


PACKAGE = "org.apache.kafka.connect.mirror."
CONNECTOR_CLASSES: Mapping[ConnectorKind, str] = MappingProxyType(
    {
        "source": PACKAGE + "MirrorSourceConnector",
        "checkpoint": PACKAGE + "MirrorCheckpointConnector",
        "heartbeat": PACKAGE + "MirrorHeartbeatConnector",
    }
)
DEFAULT_TARGET = "target"
"""The alias of the target if a connector lacks the key."""

DEFAULT_SOURCE = "source"
"""The name of the source in messages if its alias is empty."""


@dataclass(frozen=True, slots=True)
class ConnectorFlow:
    """The flow of a connector. An `idle` flow is switched off: it lacks tasks and connections."""

    name: str
    settings: FlowSettings
    idle: bool
    warnings: tuple[ConfigWarning, ...] = ()

    @property
    def kind(self) -> ConnectorKind:
        """Which of MirrorMaker 2's connectors it is."""
        kind = self.settings.kind
        assert kind is not None
        return kind


def connector_kind(class_name: str) -> ConnectorKind | None:
    """The kind of the connector that `class_name` names: in full, shortened by its package, or also by `Connector`."""
    word = class_name.strip()
    for kind, full in CONNECTOR_CLASSES.items():
        simple = full.removeprefix(PACKAGE)
        if word in {full, simple, simple.removesuffix("Connector")}:
            return kind
    return None


def refused_class(class_name: str) -> str:
    """The sentence for a connector class that this worker refuses."""
    return f"{class_name.strip()!r} is unknown to this worker; it runs MirrorMaker 2's three connectors: " + ", ".join(
        CONNECTOR_CLASSES.values()
    )


def working_key(name: str) -> Key | None:
    """The key that counts for `name` in a connector's settings; None if the name has no effect."""
    key, prefix = connector_key(name)
    return key if no_effect(name, prefix) is None else None


def connector_entries(
    name: str, config: Mapping[str, str | None], worker: WorkerConfig, warnings: list[ConfigWarning]
) -> dict[str, PropertyEntry]:
    """The configuration as entries, `${...}` resolved by the worker's providers; keys with a null value are left
    out."""
    origin = f"connector {name}"
    return {
        key: resolve_entry(PropertyEntry(key, value, origin, None, value), working_key(key), worker.providers, warnings)
        for key, value in config.items()
        if value is not None
    }


def build_connector(name: str, config: Mapping[str, str | None], worker: WorkerConfig) -> ConnectorFlow:
    """The flow of the connector `name`. Raises ConfigError with every problem found, before any contact with a
    cluster."""
    warnings: list[ConfigWarning] = []
    problems = Problems([])
    flow = read_connector(name, connector_entries(name, config, worker, warnings), worker, problems, warnings)
    if flow is None or problems.all():
        raise ConfigError(problems.all(), warnings)
    return flow


def read_connector(
    name: str,
    entries: Mapping[str, PropertyEntry],
    worker: WorkerConfig,
    problems: Problems,
    warnings: list[ConfigWarning],
) -> ConnectorFlow | None:
    """The same for entries; adds problems to `problems`. Returns None for a connector outside MirrorMaker 2's three."""
    origin = f"connector {name}"
    class_entry = entries.get("connector.class")
    kind = None if class_entry is None else connector_kind(class_entry.value)
    if kind is None:
        found = "missing" if class_entry is None else repr(class_entry.value)
        problems.add(ConfigProblem(origin, None, "connector.class", found, f"one of {_listed()}"))
        return None
    _check(entries, problems, warnings)
    check_overrides(entries, worker.settings, problems)
    entries = _without_other_classes(entries, worker.settings.connector_classes, problems)
    source = _alias(entries, "source.cluster.alias") or Alias(DEFAULT_SOURCE)
    if "source.cluster.alias" not in entries:
        expected = "the alias of the cluster that is mirrored"
        problems.add(ConfigProblem(origin, None, "source.cluster.alias", "missing", expected))
    target = _alias(entries, "target.cluster.alias") or Alias(DEFAULT_TARGET)
    layers = resolve_connector(entries, worker.layer, name, kind, source, target)
    more = Problems([])
    settings = build_flow(layers, origin, more, warnings, enabled=kind != "heartbeat")
    problems.add_new(more.all())
    if kind == "source":
        _warn_of_another_target(origin, settings, worker, warnings)
    return ConnectorFlow(name, settings, _idle(kind, settings, entries), tuple(warnings))


def _without_other_classes(
    entries: Mapping[str, PropertyEntry], allowed: tuple[str, ...], problems: Problems
) -> dict[str, PropertyEntry]:
    """Refuses Python classes and functions outside of the operator's list: otherwise every user of the REST API could
    run code here by naming it."""
    kept = dict(entries)
    for name in (*CLASS_KEYS, "transform"):
        path = entries[name].value.strip() if name in entries else ""
        if ":" in path and path not in allowed and path.partition(":")[0] not in allowed:
            kind = "class" if name in CLASS_KEYS else "function"
            expected = f"a {kind} that twinlog.connector.classes in the worker's file names"
            problems.refuse(kept.pop(name), repr(path), expected)
    return kept


def _listed() -> str:
    return ", ".join(CONNECTOR_CLASSES.values())


def _alias(entries: Mapping[str, PropertyEntry], name: str) -> Alias | None:
    entry = entries.get(name)
    return None if entry is None or not entry.value.strip() else Alias(entry.value.strip())


def _idle(kind: ConnectorKind, settings: FlowSettings, entries: Mapping[str, PropertyEntry]) -> bool:
    """MirrorHeartbeatConnector ignores `enabled`."""
    if kind == "heartbeat":
        return settings.emit_heartbeats_interval_s is None
    # The key's own default is the default of a file, whose flows have to be enabled.
    enabled = "enabled" not in entries or ConfigReader(entries, CONNECTOR, Problems([])).flag("enabled")
    return not enabled or (kind == "checkpoint" and settings.emit_checkpoints_interval_s is None)


def _warn_of_another_target(
    origin: str, flow: FlowSettings, worker: WorkerConfig, warnings: list[ConfigWarning]
) -> None:
    """MirrorMaker 2 sends records and positions to the worker's cluster, independent of the connector's name for its
    target."""
    own, there = worker.settings.client, flow.producer.client
    if not own.shares_servers(there):
        text = (
            f"by its address {', '.join(there.bootstrap_servers)} its target is another cluster than the worker's, "
            f"{', '.join(own.bootstrap_servers)}: its positions are in {flow.positions_topic} on {flow.target}, and a "
            "worker of Kafka's would look for them on its own cluster; if both are the same cluster, ignore this line, "
            "or give both the same bootstrap.servers"
        )
        warnings.append(ConfigWarning(origin, None, "", text, kind=MistakeKind.OTHER_CLUSTER))


def _check(entries: Mapping[str, PropertyEntry], problems: Problems, warnings: list[ConfigWarning]) -> None:
    """Checks each entry by itself. A key that is ignored here may have any value, as in Connect."""
    for name, entry in entries.items():
        key, prefix = connector_key(name)
        reason = no_effect(name, prefix)
        if key is None and reason is None:
            warnings.append(entry.warning("unknown key, ignored", MistakeKind.UNKNOWN_KEY, unknown_key(name)))
        elif reason is not None:
            warnings.append(entry.warning(f"ignored; {reason}", MistakeKind.IGNORED))
        elif key is not None:
            problem = check_value(entry, key, warnings, key.pattern_in(name))
            if problem is not None and key.effect not in {Effect.JVM, Effect.BROKER}:
                problems.add(problem)
