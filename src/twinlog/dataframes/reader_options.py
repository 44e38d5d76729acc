"""Reads the settings of a consumer from the options `kafka.*` of a DataFrame's reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from twinlog.config.flow.clients import read_connection
from twinlog.config.keys.table import CONSUMER, KeyTable
from twinlog.config.load import load
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.config_reader import ConfigReader, Problems, read_fields
from twinlog.config.text.entries import check_value
from twinlog.errors import ConfigError, OptionError
from twinlog.settings.flow import ClientSettings, ConsumerSettings, FlowSettings

T = TypeVar("T")

PREFIX = "kafka."
_PLACE = "option"


def read_consumer(options: Mapping[str, str]) -> tuple[ConsumerSettings, list[str]]:
    """The consumer that options like `kafka.bootstrap.servers` describe, and warnings of unknown keys.

    Keys and values are those of a Java consumer. Raises ConfigError with every problem found. Reads only the named key
    stores, and never contacts a cluster.
    """
    warnings: list[str] = []
    reading = read_kafka_options(options, CONSUMER, warnings)
    client = read_client(reading, warnings)
    settings = ConsumerSettings(**read_fields(ConsumerSettings, reading), client=client)
    require_right(reading, warnings)
    return settings, warnings


def read_kafka_options(options: Mapping[str, str], table: KeyTable, warnings: list[str]) -> ConfigReader:
    """The options `kafka.*` as keys of `table`; other options are left out."""
    problems = Problems([])
    layer: dict[str, PropertyEntry] = {}
    for option, value in options.items():
        if not option.lower().startswith(PREFIX):
            continue
        name = option[len(PREFIX) :]
        entry = layer[name] = PropertyEntry(option, value, _PLACE, None, value)
        key = table.find_key(name)
        if key is None:
            warnings.append(f"{_PLACE} {option}: an unknown key, ignored")
        else:
            problems.add_new(filter(None, [check_value(entry, key, warnings)]))
    return ConfigReader(layer, table, problems)


def read_client(reading: ConfigReader, warnings: list[str]) -> ClientSettings:
    """The connection settings of options `kafka.*`."""
    client_id = reading.text("client.id") or "twinlog-rows"
    return read_connection(reading, lambda name: PREFIX + name, _PLACE, warnings, client_id)


def require_right(reading: ConfigReader, warnings: list[str]) -> None:
    """Raise ConfigError with every problem found, if there is any."""
    if reading.problems.all():
        raise ConfigError(reading.problems.all(), warnings)


def consumer_of_cluster(path: str | Path, alias: str | None) -> ConsumerSettings:
    """The consumer of the flows in the file at `path` that read from the cluster `alias`.

    When no enabled flow reads from the cluster, the connection settings of a flow to the cluster count. Raises
    ConfigError for a wrong file, and OptionError for an unknown cluster.
    """
    return of_cluster(
        path,
        alias,
        lambda flow: flow.consumer if flow.source == alias and flow.enabled else None,
        lambda flow: ConsumerSettings(flow.target_admin.client) if flow.target == alias else None,
    )


def of_cluster(path: str | Path, alias: str | None, *ways: Callable[[FlowSettings], T | None]) -> T:
    """The first result of `ways`, tried in their order on the flows of the file at `path`, for the cluster `alias`.

    Raises ConfigError for a wrong file, and OptionError when all ways return None.
    """
    config = load(path)
    known = ", ".join(config.clusters)
    if alias is None:
        raise OptionError(f"Option 'cluster' must be specified with 'twinlog.config': one of {known}")
    for way in ways:
        for flow in config.flows:
            found = way(flow)
            if found is not None:
                return found
    raise OptionError(f"Option 'cluster' is '{alias}', but {path} has flows of these clusters only: {known}")
