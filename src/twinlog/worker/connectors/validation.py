"""Validates the configuration of a connector key by key, for `/connector-plugins/…/config/validate`.

The checks follow Connect and MirrorMaker 2's connectors (classes AbstractHerder, DistributedHerder, ConnectorConfig
with `enrich`, and the connectors' own `validate`). Patterns, logins and key stores are also checked here; Connect finds
their errors at the start of a connector. The validation works offline. A value from a provider is shown as
its reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from twinlog.config.connector import (
    CONNECTOR_CLASSES,
    ConnectorFlow,
    connector_entries,
    connector_kind,
    overrides,
    read_connector,
    refused_class,
)
from twinlog.config.keys.converter import CONVERTER_TYPE, CONVERTERS_OF, converter_keys
from twinlog.config.keys.key import MEDIUM, Importance, Key, KeyType, Level, Release, Shown, Width
from twinlog.config.properties import PropertyEntry
from twinlog.config.queries import refused_query
from twinlog.config.smt.kinds import CONDITIONS, PREDICATES, SmtKind, transform_kind
from twinlog.config.text.config_reader import Problems
from twinlog.config.worker import WorkerConfig
from twinlog.errors import RequestError
from twinlog.errors.mistakes import MistakeKind
from twinlog.settings.flow import ConnectorKind
from twinlog.settings.transform import TransformSettings
from twinlog.settings.written import key_of
from twinlog.worker.connectors.checks import Checks
from twinlog.worker.connectors.definitions import (
    connector_definitions,
    converter_definitions,
    define,
    is_wanted,
    known_key,
    release_of,
)
from twinlog.worker.connectors.disagreements import Disagreement, disagreements
from twinlog.worker.connectors.model import BLANKS, Validation


def check_converters(entries: Mapping[str, PropertyEntry], release: Release, checks: Checks) -> None:
    """Refuse converters that Kafka lacks, and add the keys of known converters."""
    for name, known in CONVERTERS_OF.items():
        side = name.partition(".")[0]
        entry = entries.get(name)
        if entry is None or entry.unresolved is not None:
            continue
        found = known.get(entry.value.strip())
        if found is None:
            checks.refuse(name, f"expected any of {', '.join(known)}", MistakeKind.CLASS)
            checks.without_value(name)
            continue
        definitions = converter_definitions(found, release)
        for definition, key in zip(definitions, converter_keys(found, release), strict=True):
            full = f"{name}.{definition.name}"
            label = definition.display_name
            given = PropertyEntry(full, side, entry.file, None, side) if definition.name == CONVERTER_TYPE else None
            checks.add(replace(definition, name=full, display_name=label), key, entry=given)


_OFF = "false"
_FIRST_PRINTABLE = 32
_DELETE = 127


def check_rules(kind: ConnectorKind, entries: Mapping[str, PropertyEntry], version: str, checks: Checks) -> None:
    """Refuse contradictions, and values that this connector is unable to use."""
    _check_name(entries, checks)
    _check_version(entries, version, checks)
    if kind != "source":
        _check_transactions(kind, entries, checks)
    if kind == "checkpoint" and _text(entries, "enabled") != _OFF:
        for name, why in (
            ("emit.checkpoints.enabled", "checkpoints are the only work of this connector"),
            ("emit.offset-syncs.enabled", "this connector needs offset syncs to translate offsets"),
        ):
            if _text(entries, name) == _OFF:
                way_out = "leave the key out, or write enabled = false"
                checks.refuse(name, f"{why}; {way_out}", MistakeKind.CONTRADICTION)


def _text(entries: Mapping[str, PropertyEntry], name: str) -> str | None:
    entry = entries.get(name)
    return None if entry is None else entry.value.strip().lower()


def _check_name(entries: Mapping[str, PropertyEntry], checks: Checks) -> None:
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


def _check_version(entries: Mapping[str, PropertyEntry], version: str, checks: Checks) -> None:
    entry = entries.get("connector.plugin.version")
    wanted = "" if entry is None else entry.value.strip()
    if checks.has_key("connector.plugin.version") and wanted:
        checks.recommend("connector.plugin.version", (version,))
        if not is_wanted(version, wanted):
            checks.refuse("connector.plugin.version", f"the only version here is {version}")


def _check_transactions(kind: ConnectorKind, entries: Mapping[str, PropertyEntry], checks: Checks) -> None:
    simple = CONNECTOR_CLASSES[kind].rpartition(".")[2]
    if _text(entries, "exactly.once.support") == "required":
        checks.refuse(
            "exactly.once.support", f"required is for connectors that copy records, unlike {simple}; write requested"
        )
    if _text(entries, "transaction.boundary") == "connector":
        checks.refuse("transaction.boundary", f"{simple} has no boundaries of its own; write poll or interval")


_GROUPS = {"transforms": ("Transforms", "Transformation"), "predicates": ("Predicates", "Predicate")}
_OWN = (
    Key("predicate", KeyType.STRING, None, "The predicate on which a record is transformed.", Level.ONE_FLOW),
    Key(
        "negate",
        KeyType.BOOL,
        "false",
        "Whether the transform applies to the records for which the predicate is false.",
        Level.ONE_FLOW,
    ),
)


def add_transforms(entries: Mapping[str, PropertyEntry], checks: Checks) -> None:
    """Add the keys of every named transform and predicate; other checks find their errors."""
    for word, (group, noun) in _GROUPS.items():
        listed = entries.get(word)
        aliases = [] if listed is None else [alias.strip() for alias in listed.value.split(",")]
        for alias in dict.fromkeys(alias for alias in aliases if alias):
            _add(word, alias, f"{group}: {alias}", noun, entries, checks)


def _add(word: str, alias: str, group: str, noun: str, entries: Mapping[str, PropertyEntry], checks: Checks) -> None:
    prefix = f"{word}.{alias}."
    name = f"{prefix}type"
    shown = Shown(Importance.HIGH, group, Width.LONG, f"{noun} type for {alias}", required=True)
    doc = f"Class for the '{alias}' {noun.lower()}."
    kind_key = Key(name, KeyType.STRING, None, doc, Level.ONE_FLOW, shown=shown)
    checks.add(replace(define(kind_key, 0), type="CLASS"), kind_key)
    found = _kind(word, entries.get(name))
    if found is None:
        return
    keys = (*(_OWN if word == "transforms" else ()), *found.keys)
    for order, key in enumerate(keys, start=1):
        shown = replace(key.shown or MEDIUM, group=group, label=key.name)
        checks.add(define(replace(key, name=f"{prefix}{key.name}", shown=shown), order), key)


def _kind(word: str, entry: PropertyEntry | None) -> SmtKind | None:
    if entry is None:
        return None
    if word == "transforms":
        found = transform_kind(entry.value.strip())
        return None if found is None else found[0]
    name = entry.value.strip()
    return CONDITIONS.get(name.removeprefix(PREDICATES)) if name.startswith(PREDICATES) else None


QUERY = key_of(TransformSettings, "sql")
"""The key whose value Spark analyses, which takes seconds."""


def validate(
    plugin: str,
    config: Mapping[str, str | None],
    worker: WorkerConfig,
    version: str,
    others: Iterable[ConnectorFlow] = (),
    *,
    ask: bool = True,
) -> Validation:
    """Validate `config` for the connector class `plugin`, in a worker of Kafka's `version`.

    For a conflict with a connector of `others`, the keys to change recommend the values of the other connector, and
    their documentation begins with the conflict. The first analysis of a query takes some seconds; if `ask` is False,
    only queries analysed before are checked. Raises RequestError with 400 for a configuration of a foreign connector,
    or of another connector than `plugin`.
    """
    class_name = config.get("connector.class")
    if class_name is None:
        text = "Connector config contains no connector type: connector.class is missing"
        raise RequestError(400, text, message_id=MistakeKind.MISSING_KEY)
    kind = connector_kind(class_name)
    if kind is None:
        raise RequestError(400, refused_class(class_name), message_id=MistakeKind.CLASS)
    if connector_kind(plugin) != kind:
        raise RequestError(400, f"Included connector type {class_name} does not match request type {plugin}")
    name = (config.get("name") or "").strip() or plugin
    entries = connector_entries(name, config, worker, [])
    checks = Checks(config, entries)
    for definition in connector_definitions(kind, release_of(version)):
        # The version of a converter matters only with a named converter.
        converter, about_version, _ = definition.name.partition(".plugin.version")
        visible = not about_version or converter == "connector" or converter in entries
        checks.add(definition, known_key(definition.name), visible=visible)
    add_transforms(entries, checks)
    check_rules(kind, entries, version, checks)
    check_converters(entries, release_of(version), checks)
    for word, setting in overrides(entries, worker.settings):
        checks.add_override(word, setting)
    problems = Problems([])
    flow = read_connector(name, entries, worker, problems, [])
    checks.add_problems(problems.all(), f"connector {name}")
    checks.add_nulls()
    if flow is not None and not checks.failed and (why := refused_query(flow.settings, ask=ask)) is not None:
        checks.refuse(QUERY, why)
    if flow is not None and not checks.failed:
        company = [other for other in others if other.name != name]
        checks.add_disagreements(name, _of(name, disagreements([*company, flow])))
    return checks.result(class_name)


def refused(found: Validation) -> str:
    """The message of the answer to a request with an invalid configuration."""
    errors = "\n".join(found.errors)
    return (
        f"Connector configuration is invalid and contains the following {found.error_count} error(s):\n{errors}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


def _of(name: str, found: Iterable[Disagreement]) -> list[Disagreement]:
    """The conflicts of the connector `name`, including conflicts that settings of the other connector fix."""
    return [item for item in found if name in {item.name, item.other}]
