"""Rules of Connect and of MirrorMaker 2's connectors that a type does not express."""

from __future__ import annotations

from collections.abc import Mapping

from twinlog.config.connector import CONNECTOR_CLASSES
from twinlog.config.properties import Entry
from twinlog.connectors.checks import Checks
from twinlog.connectors.listing import is_wanted
from twinlog.connectors.model import BLANKS
from twinlog.settings.flow import ConnectorKind

_OFF = "false"
_FIRST_PRINTABLE = 32
_DELETE = 127


def check_rules(kind: ConnectorKind, entries: Mapping[str, Entry], version: str, checks: Checks) -> None:
    """Finds what contradicts itself, or cannot work with this connector."""
    _check_name(entries, checks)
    _check_version(entries, version, checks)
    if kind != "source":
        _check_transactions(kind, entries, checks)
    if kind == "checkpoint" and _text(entries, "enabled") != _OFF:
        for name, why in (
            ("emit.checkpoints.enabled", "without checkpoints this connector has nothing to do"),
            ("emit.offset-syncs.enabled", "without offset syncs this connector cannot translate an offset"),
        ):
            if _text(entries, name) == _OFF:
                checks.refuse(name, f"{why}; leave the key out, or write enabled = false")


def _text(entries: Mapping[str, Entry], name: str) -> str | None:
    entry = entries.get(name)
    return None if entry is None else entry.value.strip().lower()


def _check_name(entries: Mapping[str, Entry], checks: Checks) -> None:
    entry = entries.get("name")
    if entry is None:
        return
    name = entry.value.strip(BLANKS)
    wrong = [ord(char) for char in name if ord(char) < _FIRST_PRINTABLE or ord(char) == _DELETE]
    if not name:
        checks.refuse("name", "String may not be empty")
    elif wrong:
        codes = ", ".join(map(str, wrong))
        checks.refuse("name", f"String may not contain control sequences but had the following ASCII chars: {codes}")


def _check_version(entries: Mapping[str, Entry], version: str, checks: Checks) -> None:
    entry = entries.get("connector.plugin.version")
    wanted = "" if entry is None else entry.value.strip()
    if checks.knows("connector.plugin.version") and wanted:
        checks.recommend("connector.plugin.version", (version,))
        if not is_wanted(version, wanted):
            checks.refuse("connector.plugin.version", f"the only version here is {version}")


def _check_transactions(kind: ConnectorKind, entries: Mapping[str, Entry], checks: Checks) -> None:
    simple = CONNECTOR_CLASSES[kind].rpartition(".")[2]
    if _text(entries, "exactly.once.support") == "required":
        checks.refuse("exactly.once.support", f"{simple} does not copy records; write requested")
    if _text(entries, "transaction.boundary") == "connector":
        checks.refuse("transaction.boundary", f"{simple} has no boundaries of its own; write poll or interval")
