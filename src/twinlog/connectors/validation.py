"""Whether the configuration of a connector is good, key by key, as `/connector-plugins/…/config/validate` answers.

Every check of Connect and of MirrorMaker 2's connectors is here (classes AbstractHerder, DistributedHerder and the
connectors' own `validate`), and what Connect would only find when the connector starts: patterns, logins, key stores.
No cluster is contacted. A value that came from a provider is shown as the reference that was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinlog.config.connector import ConnectorFlow, connector_entries, connector_kind, read_connector, refused_class
from twinlog.config.overrides import overrides
from twinlog.config.queries import refused_query
from twinlog.config.text.reading import Problems
from twinlog.config.worker import WorkerConfig
from twinlog.connectors.checks import Checks
from twinlog.connectors.converters import check_converters
from twinlog.connectors.definitions import connector_definitions, known_key
from twinlog.connectors.disagreements import Disagreement, disagreements
from twinlog.connectors.listing import release_of
from twinlog.connectors.model import Validation
from twinlog.connectors.rules import check_rules
from twinlog.connectors.transforms import add_transforms
from twinlog.errors import RequestError
from twinlog.settings.transform import TransformSettings
from twinlog.settings.written import key_of

QUERY = key_of(TransformSettings, "sql")
"""The key whose value Spark is asked about, which takes seconds."""


def validate(
    plugin: str,
    config: Mapping[str, str | None],
    worker: WorkerConfig,
    version: str,
    others: Iterable[ConnectorFlow] = (),
    *,
    ask: bool = True,
) -> Validation:
    """What is wrong with `config` for the connector class `plugin`, in a worker of Kafka's `version`.

    Where the connector would run, but not fit to one of the `others` of the worker, the keys to change recommend the
    other's values, and their documentation begins with what will not work. A query takes some seconds, unless it
    was asked for before; without `ask` no other is looked at. Raises RequestError with 400 where the configuration is
    of no connector of MirrorMaker 2, or of another one than `plugin`.
    """
    class_name = config.get("connector.class")
    if class_name is None:
        raise RequestError(400, "Connector config contains no connector type: connector.class is missing")
    kind = connector_kind(class_name)
    if kind is None:
        raise RequestError(400, refused_class(class_name))
    if connector_kind(plugin) != kind:
        raise RequestError(400, f"Included connector type {class_name} does not match request type {plugin}")
    name = (config.get("name") or "").strip() or plugin
    entries = connector_entries(name, config, worker, [])
    checks = Checks(config, entries)
    for definition in connector_definitions(kind, release_of(version)):
        # The version of a converter matters where one is named.
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
        checks.advise(name, _of(name, disagreements([*company, flow])))
    return checks.result(class_name)


def refused(found: Validation) -> str:
    """The message of the answer to a request that submits what is not good."""
    errors = "\n".join(found.errors)
    return (
        f"Connector configuration is invalid and contains the following {found.error_count} error(s):\n{errors}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


def _of(name: str, found: Iterable[Disagreement]) -> list[Disagreement]:
    """Those that concern the connector `name`; the settings that fix one of another connector are not its own."""
    return [item for item in found if name in {item.name, item.other}]
