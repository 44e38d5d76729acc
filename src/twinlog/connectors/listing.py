"""The list of `/connector-plugins`: the classes that a configuration may name, and the keys of each class."""

from __future__ import annotations

from collections.abc import Sequence

from twinlog.config.connector import CONNECTOR_CLASSES, connector_kind
from twinlog.config.keys.converter import CONVERTERS, HEADER_CONVERTERS
from twinlog.config.keys.key import Release
from twinlog.connectors.definitions import connector_definitions, converter_definitions
from twinlog.connectors.model import KeyDefinition, PluginInfo
from twinlog.errors import RequestError


def release_of(version: str) -> Release:
    """The line of releases that a version of Kafka belongs to."""
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def is_wanted(version: str, wanted: str) -> bool:
    """Whether `wanted` names this version, the latest version or a range: each range fits the single version."""
    return wanted in {version, "latest"} or wanted.startswith(("[", "("))


def plugins(version: str, *, connectors_only: bool = True) -> Sequence[PluginInfo]:
    """The connectors, and with them the converters of a worker of Kafka's `version`, in Connect's order."""
    found = [PluginInfo(name, "source", version) for name in sorted(CONNECTOR_CLASSES.values())]
    if not connectors_only:
        found += [PluginInfo(name, "converter", version) for name in CONVERTERS]
        found += [PluginInfo(name, "header_converter", version) for name in HEADER_CONVERTERS]
    return found


def plugin_keys(plugin: str, version: str, wanted: str | None = None) -> Sequence[KeyDefinition]:
    """The keys of a plugin in a worker of Kafka's `version`.

    Raises RequestError with 404 for an unknown plugin, with 400 for another `wanted` version.
    """
    if wanted is not None and not is_wanted(version, wanted):
        raise RequestError(400, f"{plugin} has no version {wanted} here, only {version}")
    kind = connector_kind(plugin)
    if kind is not None:
        return connector_definitions(kind, release_of(version))
    full = next((name for name in HEADER_CONVERTERS if plugin in _names(name)), None)
    if full is None:
        raise RequestError(404, f"Unknown plugin {plugin}.")
    return converter_definitions(HEADER_CONVERTERS[full], release_of(version))


def _names(full: str) -> tuple[str, ...]:
    """The names of a converter: in full, as a simple class name, and as the class name minus its suffix."""
    simple = full.rpartition(".")[2]
    short = simple.removesuffix("HeaderConverter") if "Header" in simple else simple.removesuffix("Converter")
    return full, simple, short
