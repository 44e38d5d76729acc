"""Beans and families of metrics as pages: Prometheus text, OpenMetrics, and JSON by the names of beans.

Beans are MBeans as Kafka registers them (Kafka class JmxReporter); rules of Strimzi make names for Prometheus of them.
Beans of the same type form a table, because partitions have thousands of beans. The JSON has the form of Jolokia.

The rules: `kafka.connect:type=source-task-metrics,connector=...` becomes `kafka_connect_source_task_...`, a bean of a
client (`kafka.consumer:type=consumer-metrics,client-id=...`) `kafka_consumer_...`, and a bean of a mirror
`kafka_connect_mirror_mirrorsourceconnector_...`. Values of labels keep the quotes of a bean name, as dashboards
expect. The rules of Strimzi leave out some attributes; here every number has a name. Strimzi's Metrics Reporter makes
other names: domain, type and attribute, `kafka_connect_source_task_metrics_...`, and labels without quotes.

This module writes beans itself: prometheus_client takes 25 us a sample, and 10,000 partitions have 150,000 samples.
prometheus_client writes the families, and chooses the format for a client.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    Metric,
)

MIRROR = "kafka.connect.mirror"
CONNECT = "kafka.connect"

Kind = Literal["counter", "gauge"]
Names = Literal["exporter", "reporter"]
"""Whose names the page has: those of the rules for Kafka's JMX exporter, or those of Strimzi's Metrics Reporter."""

Value = float | str
"""The value of an attribute: a number, which is NaN before the first measurement, or a text."""

_PLAIN = re.compile(r"[A-Za-z0-9_%\-. \t]*")
_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "*": "\\*", "?": "\\?", "\n": "\\n"})
_OTHER = re.compile(r"[^A-Za-z0-9_:]")
_RESERVED = re.compile(r"_(?:total|created|bucket|info)$")
OPENMETRICS = "application/openmetrics-text"
_RARE = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


@dataclass(frozen=True, slots=True)
class Family:
    """The Prometheus family of an attribute of the beans of a type."""

    name: str
    kind: Kind
    factor: float = 1.0
    text: str | None = None
    """The label for a value that is a word, and the number is then 1; None for a number."""


def family(table: BeanTable, attribute: str) -> Family | None:
    """The family of an attribute; None for a text of a single bean, for example the class of a connector."""
    at = table.attributes.index(attribute)
    word = bool(table.rows) and isinstance(table.rows[0][1][at], str)
    if word:
        if table.type == "connector-task-metrics" and attribute == "status":
            return Family("kafka_connect_connector_status", "gauge", text="status")
        return None
    if table.type == "app-info":
        # The unit is seconds, by the valueFactor of the rule.
        return Family(
            f"kafka_{_underlined(table.domain.removeprefix('kafka.'))}_start_time_seconds", "gauge", factor=0.001
        )
    kind: Kind = "counter" if attribute.endswith("-total") and table.domain != MIRROR else "gauge"
    return Family(f"{_prefix(table)}_{_underlined(attribute)}", kind)


def _prefix(table: BeanTable) -> str:
    kind = table.type.removesuffix("-metrics")
    if table.domain == MIRROR:
        return f"kafka_connect_mirror_{kind.lower()}"
    if kind.startswith("connect-worker"):
        return f"kafka_{_underlined(kind)}"
    if table.domain == CONNECT and "connector" in table.tags:
        return f"kafka_connect_{_underlined(kind)}"
    return f"kafka_{_underlined(kind)}"


def reporter_family(table: BeanTable, attribute: str) -> Family:
    """The family of an attribute by Strimzi's Metrics Reporter (classes KafkaMetricWrapper and KafkaCollector): each
    number is a gauge, and a suffix that Prometheus reserves is left out."""
    name = _sanitized(f"{table.domain}_{table.type}_{attribute}")
    while (suffix := _RESERVED.search(name)) is not None:
        name = name[: suffix.start()]
    at = table.attributes.index(attribute)
    word = bool(table.rows) and isinstance(table.rows[0][1][at], str)
    return Family(f"{name}_info", "gauge", text=_sanitized(attribute)) if word else Family(name, "gauge")


def _sanitized(name: str) -> str:
    return _OTHER.sub("_", name).lower()


def label(tag: str) -> str:
    """The label of a tag: `client-id` becomes `clientid`."""
    return tag.replace("-", "").lower()


def _underlined(name: str) -> str:
    return name.replace("-", "_").replace(".", "_").lower()


@dataclass(frozen=True, slots=True)
class BeanTable:
    """Beans of `domain:type=type` with these tags and attributes; a row has the values of both."""

    domain: str
    type: str
    tags: tuple[str, ...]
    attributes: tuple[str, ...]
    rows: Sequence[tuple[tuple[str, ...], tuple[Value, ...]]]

    def named(self) -> Iterator[tuple[str, dict[str, Value]]]:
        """Each bean under its whole name, with its attributes."""
        for tags, values in self.rows:
            pairs = [f"type={self.type}"]
            # A tag without a value is left out (JmxReporter.getMBeanName).
            pairs += [f"{name}={quoted(value)}" for name, value in zip(self.tags, tags, strict=True) if value]
            yield f"{self.domain}:{','.join(pairs)}", dict(zip(self.attributes, values, strict=True))


def bean(domain: str, type_: str, attributes: Iterable[tuple[str, Value]], **tags: str) -> BeanTable:
    """A table with a single bean; the argument `client_id` gives the tag client-id."""
    named = list(attributes)
    row = tuple(tags.values()), tuple(value for _, value in named)
    names = tuple(name.replace("_", "-") for name in tags)
    return BeanTable(domain, type_, names, tuple(name for name, _ in named), [row])


def quoted(value: str) -> str:
    """The value of a tag in the name of a bean: in quotes if it has other than plain characters.

    Source: Kafka class Sanitizer, Java's ObjectName.quote.
    """
    return value if _PLAIN.fullmatch(value) else f'"{value.translate(_QUOTED)}"'


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements of a process at a moment: beans under Kafka's names, and families under twinlog's names."""

    beans: Sequence[BeanTable] = ()
    families: Sequence[Metric] = ()


class Pages:
    """The two pages of a process; `measure` is called for each request, on any thread."""

    def __init__(self, measure: Callable[[], Measurements], names: Names = "exporter") -> None:
        self._measure = measure
        self._names: Names = names

    def text(self, accept: str) -> tuple[str, bytes]:
        """The type of the content and the page `/metrics`, for a client with this Accept header."""
        encode, content_type = choose_encoder(accept)
        measured = self._measure()
        beans = bean_text(measured.beans, openmetrics=content_type.startswith(OPENMETRICS), names=self._names)
        # The end of OpenMetrics is in the second part.
        return content_type, beans + encode(_Families(measured.families))

    def json(self) -> bytes:
        """The page `/metrics.json`: each bean with its attributes, None before the first measurement."""
        found = {
            name: {attribute: _finite(value) for attribute, value in attributes.items()}
            for table in self._measure().beans
            for name, attributes in table.named()
        }
        return json.dumps({"value": found, "status": 200}, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class _Families:
    """The families in the form for prometheus_client."""

    families: Sequence[Metric]

    def collect(self) -> Iterable[Metric]:
        return self.families


@dataclass(slots=True)
class _FamilyLines:
    family: Family
    about: str
    lines: list[str] = field(default_factory=list)


def bean_text(tables: Iterable[BeanTable], *, openmetrics: bool, names: Names = "exporter") -> bytes:
    """The samples of all beans, family by family, still without the end of a page."""
    found: dict[str, _FamilyLines] = {}
    for table in tables:
        _add(table, found, names)
    parts: list[str] = []
    for name, one in found.items():
        shown = name.removesuffix("_total") if openmetrics and one.family.kind == "counter" else name
        parts.append(f"# HELP {shown} {one.about}\n# TYPE {shown} {one.family.kind}\n")
        parts += one.lines
    return "".join(parts).encode()


def _add(table: BeanTable, found: dict[str, _FamilyLines], names: Names) -> None:
    by_reporter = names == "reporter"
    tag_names = [_sanitized(tag) if by_reporter else label(tag) for tag in table.tags]
    shown = str if by_reporter else quoted
    labels = [
        ",".join([f'{name}="{escaped(shown(tag))}"' for name, tag in zip(tag_names, tags, strict=True)])
        for tags, _ in table.rows
    ]
    plain = [f"{{{text}}} " if text else " " for text in labels]
    for at, attribute in enumerate(table.attributes):
        made = reporter_family(table, attribute) if by_reporter else family(table, attribute)
        if made is None:
            continue
        about = f"Attribute {attribute} of {table.domain}:type={table.type}."
        lines = found.setdefault(made.name, _FamilyLines(made, about)).lines
        name = made.name
        if made.text is not None:
            lines += [
                f'{name}{{{text}{"," if text else ""}{made.text}="{escaped(str(row[1][at]))}"}} 1\n'
                for text, row in zip(labels, table.rows, strict=True)
            ]
        elif made.factor != 1:
            lines += [
                f"{name}{text}{number(float(row[1][at]) * made.factor)}\n"
                for text, row in zip(plain, table.rows, strict=True)
            ]
        else:
            lines += [f"{name}{text}{number(row[1][at])}\n" for text, row in zip(plain, table.rows, strict=True)]


def escaped(value: str) -> str:
    """The value of a label in both forms of text."""
    return value.translate(_ESCAPED)


def number(value: Value) -> str:
    """A number in Prometheus' form."""
    if type(value) is int:
        return str(value)
    text = repr(value)
    return _RARE.get(text, text)


def _finite(value: Value) -> Value | None:
    return value if isinstance(value, str) or math.isfinite(value) else None
