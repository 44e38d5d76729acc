"""From the path of a client's properties file, as Kafka's own tools take it, to the connection that it describes."""

from __future__ import annotations

from pathlib import Path

from twinlog.config.file_kind import FileKind, require_kind
from twinlog.config.flow.connection import read_connection
from twinlog.config.keys.table import ADMIN
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.config.text.entries import check_value, read_providers, resolve_entry, without_duplicates
from twinlog.config.text.reading import ConfigReader, Problems
from twinlog.errors import ConfigError, ConfigProblem
from twinlog.settings.flow import ClientSettings


def load_client(path: str | Path) -> tuple[ClientSettings, list[str]]:
    """The connection of a file as `--command-config` takes it, with `bootstrap.servers` in it; and warnings.

    Keys unknown to an admin client are warnings, as in Kafka. Raises ConfigError with every problem found. Reads only
    this file, the targets of its `${...}` references, and its key stores; it contacts no cluster.
    """
    file, warnings, found = str(path), list[str](), list[ConfigProblem]()
    require_kind(path, FileKind.CLIENT)
    last = without_duplicates(read_properties(Path(path)), warnings)
    providers = read_providers(last, file, found, warnings)
    problems = Problems(found)
    layer: dict[str, PropertyEntry] = {}
    for name, entry in last.items():
        if name.startswith("config.providers"):
            continue
        key = ADMIN.find_key(name)
        layer[name] = resolve_entry(entry, key, providers, warnings)
        if key is None:
            warnings.append(f"{entry.place}: {entry.key}: an unknown key, ignored")
        else:
            problems.add_new(filter(None, [check_value(layer[name], key, warnings)]))
    settings = read_connection(ConfigReader(layer, ADMIN, problems), str, file, warnings, "twinlog")
    if problems.all():
        in_order = sorted(problems.all(), key=lambda problem: (problem.line is None, problem.line or 0))
        raise ConfigError(in_order, warnings)
    return settings, warnings
