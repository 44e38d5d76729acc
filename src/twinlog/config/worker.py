"""From the path of a Connect worker's file to its settings: the group and its topics, the REST API, and the metrics.

The REST API and the metrics have listeners, with TLS for https. The metrics of any other process are read here, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import cast

from twinlog.config.console import read_console
from twinlog.config.file_kind import OFFSET_FILE, FileKind, require_kind
from twinlog.config.flow.clients import read_connection
from twinlog.config.keys.converter import CONVERTERS_OF
from twinlog.config.keys.key import Effect, Key
from twinlog.config.keys.process import HTTPS, LISTENERS
from twinlog.config.keys.scope import spelled
from twinlog.config.keys.table import CLIENTS, WORKER, WORKER_CLIENT, WORKER_FILE, KeyTable
from twinlog.config.properties import PropertyEntry, read_properties
from twinlog.config.security.tls import read_tls
from twinlog.config.text.config_reader import ConfigReader, Problems, read_fields
from twinlog.config.text.entries import check_value, read_providers, refuse_useless, resolve_entry, without_duplicates
from twinlog.config.text.precedence import Layer
from twinlog.config.text.providers import Providers
from twinlog.config.text.values import Lookup, ValueRefusedError, parse_header_rules, parse_listener
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.settings.tls import ClientAuth, TlsSettings
from twinlog.settings.worker import (
    DriverListener,
    GroupSettings,
    HeaderSettings,
    ListenerAddress,
    MetricsSettings,
    OverridePolicy,
    RestSettings,
    StorageTopic,
    WorkerSettings,
)

_KEY_STORE = "ssl.keystore.location"
_EXTENSIONS = "rest.extension.classes"
BASIC_AUTH = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
"""The only extension there is: users log in to the REST API. Connect finds it by its short name, too."""


def read_rest(layer: Layer, file: str, problems: Problems, warnings: list[ConfigWarning]) -> RestSettings:
    """The settings of the REST API; a wrong value becomes a problem. A problem with a missing key names `file`."""
    reading = ConfigReader(layer, WORKER_FILE, problems)
    listeners = read_listeners(reading, "listeners")
    if not listeners:
        entry = layer.get("listeners")
        if entry is not None and not entry.value.strip():
            problems.refuse(entry, "an empty list of addresses", "an address, for example http://:8083")
    admin = read_listeners(reading, "admin.listeners") if "admin.listeners" in layer else None
    _check_extensions(reading, problems)
    https = read_https(layer, "listeners.https.", listeners, file, problems, warnings)
    admin_https = read_https(layer, "admin.listeners.https.", admin or (), file, problems, warnings)
    advertised = reading.text("rest.advertised.listener")
    if advertised and advertised not in {listener.scheme for listener in listeners}:
        problems.refuse(layer["rest.advertised.listener"], repr(advertised), "the scheme of any of the listeners")
    return RestSettings(
        **read_fields(RestSettings, reading),
        listeners=listeners,
        admin_listeners=admin,
        response_headers=_headers(reading),
        https=None if https is None else https[0],
        https_client_auth="none" if https is None else https[1],
        admin_https=None if admin_https is None else admin_https[0],
        admin_https_client_auth="none" if admin_https is None else admin_https[1],
    )


def read_listeners(reading: ConfigReader, name: str) -> tuple[ListenerAddress, ...]:
    """The addresses of a key; wrong addresses were a problem already."""
    try:
        return tuple(parse_listener(item) for item in reading.items(name))
    except ValueRefusedError:
        # A problem already.
        return ()


def _check_extensions(reading: ConfigReader, problems: Problems) -> None:
    """An unknown name is refused: if a login were missing, everybody could use the API."""
    unknown = set(reading.items(_EXTENSIONS)) - {BASIC_AUTH, BASIC_AUTH.rpartition(".")[2]}
    if unknown:
        found = ", ".join(repr(name) for name in sorted(unknown))
        problems.refuse(reading.layer[_EXTENSIONS], found, f"{BASIC_AUTH}, or an absent key")


def _headers(reading: ConfigReader) -> tuple[HeaderSettings, ...]:
    return parse_header_rules(reading.text("response.http.headers.config"))


def read_https(
    layer: Layer,
    prefix: str,
    listeners: Sequence[ListenerAddress],
    file: str,
    problems: Problems,
    warnings: list[ConfigWarning],
) -> tuple[TlsSettings, ClientAuth] | None:
    """If any key below `prefix` is set, only these keys count, else the keys of the worker's own connections (class
    SSLUtils)."""
    if all(listener.scheme != "https" for listener in listeners):
        return None
    own = {name.removeprefix(prefix): entry for name, entry in layer.items() if name.startswith(prefix)}
    reading = ConfigReader(own or layer, WORKER, problems)
    if _KEY_STORE not in reading.layer and "ssl.keystore.key" not in reading.layer:
        expected = "the certificate and key that an https listener shows"
        problems.add(ConfigProblem(file, None, (prefix if own else "") + _KEY_STORE, "missing", expected))
    return read_tls(reading, warnings), cast(ClientAuth, reading.text("ssl.client.auth"))


def read_metrics(
    layer: Layer, table: KeyTable, file: str, problems: Problems, warnings: list[ConfigWarning]
) -> MetricsSettings:
    """The settings of a file whose keys outside of flows are in `table`; a wrong value becomes a problem."""
    reading = ConfigReader(layer, table, problems)
    listeners = read_listeners(reading, LISTENERS)
    https = read_https(layer, HTTPS, listeners, file, problems, warnings)
    return MetricsSettings(
        **read_fields(MetricsSettings, reading),
        listeners=listeners,
        https=None if https is None else https[0],
        client_auth="none" if https is None else https[1],
    )


_KINDS = {
    "config": "the connectors' configurations",
    "offset": "the connectors' positions",
    "status": "the states of connectors and tasks",
}
_OWN = ("topic", "partitions", "replication.factor", "cleanup.policy", "file.filename")
"""Names below `offset.storage.` and its like that are outside of topic settings, or have a fixed value."""


def read_group(reading: ConfigReader, file: str, problems: Problems, warnings: list[ConfigWarning]) -> GroupSettings:
    """The settings of the group; a wrong value becomes a problem. A problem with a missing key names `file`."""
    if "group.id" not in reading.layer:
        expected = "the name that all workers of the group have"
        problems.add(ConfigProblem(file, None, "group.id", "missing", expected))
    topics = {kind: _topic(reading, kind, file, problems) for kind in _KINDS}
    _check_apart(reading, problems)
    _warn_of_fixed(reading, warnings)
    _check_algorithms(reading, problems)
    return GroupSettings(
        **read_fields(GroupSettings, reading),
        group_id=reading.text("group.id"),
        config_storage=topics["config"],
        offset_storage=topics["offset"],
        status_storage=topics["status"],
    )


def _topic(reading: ConfigReader, kind: str, file: str, problems: Problems) -> StorageTopic:
    prefix = f"{kind}.storage."
    name = f"{prefix}topic"
    if name not in reading.layer:
        problems.add(ConfigProblem(file, None, name, "missing", f"the topic that keeps {_KINDS[kind]}"))
    more = [key.removeprefix(prefix) for key in reading.layer if key.startswith(prefix)]
    return StorageTopic(
        reading.text(name),
        # Connect writes all configurations in a single order.
        1 if kind == "config" else reading.number(f"{prefix}partitions"),
        reading.number(f"{prefix}replication.factor"),
        tuple(
            (setting, entry.value.strip())
            for setting in more
            if setting not in _OWN and (entry := reading.get_entry(prefix + setting)) is not None
        ),
    )


def _check_apart(reading: ConfigReader, problems: Problems) -> None:
    """Each topic is read as a whole, so it may hold only its own records."""
    seen: dict[str, str] = {}
    for kind in _KINDS:
        entry = reading.layer.get(f"{kind}.storage.topic")
        if entry is None or entry.unresolved is not None:
            continue
        other = seen.setdefault(entry.value.strip(), entry.key)
        if other != entry.key:
            problems.refuse(entry, f"the topic of {other}", "a topic of its own")


def _warn_of_fixed(reading: ConfigReader, warnings: list[ConfigWarning]) -> None:
    """Warn of values that differ from a fixed value, as in Connect (Kafka class DistributedConfig)."""
    fixed = {f"{kind}.storage.cleanup.policy": "compact" for kind in _KINDS} | {"config.storage.partitions": "1"}
    for name, always in fixed.items():
        entry = reading.layer.get(name)
        if entry is not None and entry.value.strip() != always:
            text = f"{entry.value.strip()!r} is ignored; it is always {always}"
            warnings.append(entry.warning(text, MistakeKind.IGNORED))


def _check_algorithms(reading: ConfigReader, problems: Problems) -> None:
    """A worker must accept its own signatures (Kafka class DistributedConfig)."""
    signs = reading.text("inter.worker.signature.algorithm")
    accepted = reading.layer.get("inter.worker.verification.algorithms")
    written = accepted or reading.layer.get("inter.worker.signature.algorithm")
    if written is not None and signs not in reading.items("inter.worker.verification.algorithms"):
        expected = f"inter.worker.verification.algorithms with {signs}, which inter.worker.signature.algorithm names"
        problems.refuse(written, repr(written.value), expected)


_CLIENT_NAMES = tuple(f"{word}.{name}" for word, table in CLIENTS.items() for name in table.exact)
_REPLICAS = "offset.storage.replication.factor"
_NO_CONVERSION = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """The checked content of a worker's file: settings, the settings that its connectors inherit, and warnings."""

    settings: WorkerSettings
    layer: Layer
    providers: Providers
    warnings: tuple[ConfigWarning, ...] = ()


def load_worker(path: str | Path, *, distributed: bool | None = None, lenient: bool = False) -> WorkerConfig:
    """The settings of the file at `path`, for example connect-distributed.properties.

    If `distributed` is None, the file's keys decide the kind of worker: a standalone worker has a file for its offsets,
    and lacks `group.id`. Unknown keys are warnings, as in Connect; with `lenient` so is a reference to an undeclared
    provider. Raises ConfigError with every problem found. Reads only this file, the targets of its `${...}` references,
    and its key stores, before any contact with a cluster.
    """
    require_kind(path, FileKind.WORKER)
    entries = list(read_properties(Path(path)))
    if distributed is None:
        names = {entry.key for entry in entries}
        distributed = "group.id" in names or OFFSET_FILE not in names
    return worker_of(entries, str(path), distributed=distributed, lenient=lenient)


def worker_of(
    entries: Iterable[PropertyEntry],
    file: str,
    *,
    distributed: bool = True,
    lenient: bool = True,
    lookups: Mapping[str, Lookup] = MappingProxyType({}),
    classes: Mapping[str, Lookup] = MappingProxyType({}),
) -> WorkerConfig:
    """The same of entries already read; `file` is the name for messages. Raises ConfigError.

    `lookups` are providers besides the providers in the entries, `classes` are Java classes that those may have besides
    Kafka's.
    """
    warnings: list[ConfigWarning] = []
    last = without_duplicates(entries, warnings)
    warnings.extend(
        entry.warning(text, MistakeKind.READ_OTHERWISE) for entry in last.values() for text in entry.remarks
    )
    found: list[ConfigProblem] = []
    providers = read_providers(last, file, found, warnings, classes).with_more(lookups)
    problems = Problems(found)
    layer: dict[str, PropertyEntry] = {}
    for name, entry in last.items():
        key = _key(name)
        layer[name] = resolve_entry(entry, key, providers, warnings)
        if key is None:
            _unknown(layer[name], last, problems, warnings)
        else:
            problems.add_new(filter(None, [check_value(layer[name], key, warnings, key.pattern_in(name))]))
    if not distributed:
        # A standalone worker's file lacks a factor for the topics of flows, as Kafka's own worker works without topics.
        layer.setdefault(_REPLICAS, PropertyEntry(_REPLICAS, "-1", file, None, "-1"))
    unused = [name for name in layer if (key := _key(name)) is not None and key.effect is Effect.JVM]
    if unused:
        first = layer[unused[0]]
        text = "these keys are ignored here: " + ", ".join(unused)
        warnings.append(ConfigWarning(first.file, first.line, "", text, kind=MistakeKind.IGNORED))
    if not lenient:
        more: list[ConfigProblem] = []
        refuse_useless(more, warnings)
        problems.add_new(more)
    settings = _read(layer, file, problems, warnings, distributed)
    if problems.all():
        in_order = sorted(problems.all(), key=lambda problem: (problem.line is None, problem.line or 0))
        raise ConfigError(in_order, warnings)
    return WorkerConfig(settings, layer, providers, tuple(warnings))


def _key(name: str) -> Key | None:
    word, _, rest = name.partition(".")
    found = CLIENTS[word].find_key(rest) if word in CLIENTS and rest else None
    return found or WORKER_FILE.find_key(name)


def _unknown(
    entry: PropertyEntry, last: dict[str, PropertyEntry], problems: Problems, warnings: list[ConfigWarning]
) -> None:
    expected = spelled(entry.key, (*WORKER_FILE.exact, *_CLIENT_NAMES), otherwise="")
    policy = last.get("twinlog.unknown.keys")
    if entry.key.startswith("twinlog.") or (policy is not None and policy.value.strip() == "fail"):
        problems.refuse(entry, "unknown key", expected, MistakeKind.UNKNOWN_KEY)
    else:
        warnings.append(entry.warning("unknown key, ignored", MistakeKind.UNKNOWN_KEY, expected))


def _read(
    layer: Layer, file: str, problems: Problems, warnings: list[ConfigWarning], distributed: bool
) -> WorkerSettings:
    reading = ConfigReader(layer, WORKER_FILE, problems)
    needed = {
        "key.converter": f"a converter's class, for example {_NO_CONVERSION}",
        "value.converter": f"a converter's class, for example {_NO_CONVERSION}",
    }
    if not distributed:
        needed[OFFSET_FILE] = "a file that stores the positions of a standalone worker"
    for name, expected in needed.items():
        if name not in layer:
            problems.add(ConfigProblem(file, None, name, "missing", expected))
        elif name == OFFSET_FILE and not layer[name].value.strip():
            problems.refuse(layer[name], "nothing", expected)
    _check_converters(layer, problems)
    client_id = reading.text("client.id") or (f"connect-{reading.text('group.id')}" if distributed else "connect")
    return WorkerSettings(
        **read_fields(WorkerSettings, reading),
        client=read_connection(ConfigReader(layer, WORKER_CLIENT, problems), str, file, warnings, client_id),
        group=read_group(reading, file, problems, warnings) if distributed else None,
        offset_file=None if distributed else reading.text(OFFSET_FILE),
        rest=read_rest(layer, file, problems, warnings),
        driver=DriverListener(**read_fields(DriverListener, reading)),
        console=read_console(layer, WORKER_FILE, problems, warnings),
        metrics=read_metrics(layer, WORKER_FILE, file, problems, warnings),
        override_policy=_policy(reading),
    )


def _check_converters(layer: Layer, problems: Problems) -> None:
    """Connect refuses to start with a missing class; values stay bytes here, so only Kafka's classes are accepted."""
    for name, known in CONVERTERS_OF.items():
        entry = layer.get(name)
        if entry is not None and entry.unresolved is None and (value := entry.value.strip()) not in known:
            problems.refuse(
                entry,
                f"class {value} could not be found" if value else "nothing",
                f"any of {', '.join(known)}; records are copied as bytes with each of them",
            )


def _policy(reading: ConfigReader) -> OverridePolicy:
    word = reading.text("connector.client.config.override.policy").rpartition(".")[2]
    return cast(OverridePolicy, word.removesuffix("ConnectorClientConfigOverridePolicy"))
