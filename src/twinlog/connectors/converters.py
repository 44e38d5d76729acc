"""Checks the converters that a connector names. They convert nothing: records are copied as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twinlog.config.keys.converter import CONVERTER_TYPE, CONVERTERS_OF, converter_keys
from twinlog.config.keys.shown import Release
from twinlog.config.properties import Entry
from twinlog.connectors.checks import Checks
from twinlog.connectors.definitions import converter_definitions


def check_converters(entries: Mapping[str, Entry], release: Release, checks: Checks) -> None:
    """Refuses a class that Kafka does not have, and adds the keys of one that it has."""
    for name, known in CONVERTERS_OF.items():
        side = name.partition(".")[0]
        entry = entries.get(name)
        if entry is None or entry.unresolved is not None:
            continue
        found = known.get(entry.value.strip())
        if found is None:
            checks.refuse(name, f"expected one of {', '.join(known)}")
            checks.without_value(name)
            continue
        definitions = converter_definitions(found, release)
        for definition, (_, key) in zip(definitions, converter_keys(found, release), strict=True):
            full = f"{name}.{definition.name}"
            label = definition.display_name
            given = Entry(full, side, entry.file, None, side) if definition.name == CONVERTER_TYPE else None
            checks.add(replace(definition, name=full, display_name=label), key, entry=given)
