"""The common model of all configuration forms: workers with their connectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twinlog.config.connector import CONNECTOR_CLASSES, InitialState
from twinlog.config.keys.connector import CHECKPOINT_KEYS
from twinlog.config.properties import PropertyEntry
from twinlog.settings.flow import ConnectorKind

HEARTBEAT_PREFIXES = ("emit.heartbeats.", "heartbeats.topic.")
CHECKPOINT_NAMES = frozenset(key.name for key in CHECKPOINT_KEYS if not key.name.startswith(HEARTBEAT_PREFIXES))
CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"


def raw(entry: PropertyEntry) -> str:
    """The value to write again: a reference stays a reference, a comment after it is removed."""
    return entry.written if "${" in entry.written else entry.value


def owner(key: str) -> ConnectorKind | None:
    """The only connector that a key means something to; None for several."""
    if key.startswith(HEARTBEAT_PREFIXES):
        return "heartbeat"
    return "checkpoint" if key in CHECKPOINT_NAMES else None


def default_name(kind: ConnectorKind) -> str:
    """The name of a connector in a dedicated MirrorMaker 2."""
    return CONNECTOR_CLASSES[kind].rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class ConnectorSpec:
    """A connector with its settings as written, by key; they may include secrets."""

    name: str
    kind: ConnectorKind
    source: str
    target: str
    entries: Mapping[str, PropertyEntry] = field(repr=False)
    state: InitialState = "RUNNING"


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """A worker on the cluster `target`, its settings by key, and its connectors."""

    target: str
    entries: Mapping[str, PropertyEntry] = field(repr=False)
    connectors: tuple[ConnectorSpec, ...]


@dataclass(frozen=True, slots=True)
class NotConverted:
    """A setting that lacks a place in the target form; `place` is file and line."""

    place: str
    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.key}: {self.why}"


def not_converted(entry: PropertyEntry, why: str) -> NotConverted:
    """The same of an entry."""
    return NotConverted(entry.place, entry.key, why)


@dataclass(frozen=True, slots=True)
class Mirrors:
    """A configuration that was read. `not_converted` lists settings that only their own form can express, for example
    logging in a resource."""

    workers: tuple[WorkerSpec, ...]
    not_converted: tuple[NotConverted, ...] = ()
    remarks: tuple[str, ...] = ()
    secrets: Mapping[tuple[str, str], str] = field(default_factory=dict, repr=False)
    """The values of Secrets and ConfigMaps beside a resource in its file, by name and key."""

    @property
    def providers(self) -> dict[str, str]:
        """The config providers that it names, each with its class."""
        found: dict[str, str] = {}
        for worker in self.workers:
            for key, entry in worker.entries.items():
                if key.startswith("config.providers.") and key.endswith(".class"):
                    found[key.removeprefix("config.providers.").removesuffix(".class")] = entry.value.strip()
        return found


@dataclass(frozen=True, slots=True)
class Output:
    """Files by their names, their secrets by name and key, and the settings left out."""

    files: Mapping[str, str] = field(repr=False)
    secrets: Mapping[tuple[str, str], str] = field(repr=False)
    not_converted: tuple[NotConverted, ...]
    remarks: tuple[str, ...]
