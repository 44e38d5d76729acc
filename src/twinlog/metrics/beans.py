"""MBeans as Kafka registers them (Kafka class JmxReporter), and their names for Prometheus by Strimzi's rules.

Beans of the same type form a table, because partitions have thousands of beans.

The rules: `kafka.connect:type=source-task-metrics,connector=...` becomes `kafka_connect_source_task_...`, a bean of a
client (`kafka.consumer:type=consumer-metrics,client-id=...`) `kafka_consumer_...`, and a bean of a mirror
`kafka_connect_mirror_mirrorsourceconnector_...`. Values of labels keep the quotes of a bean's name, as dashboards
expect. Strimzi's rules leave out some attributes; here every number has a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

MIRROR = "kafka.connect.mirror"
CONNECT = "kafka.connect"

Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Family:
    """The Prometheus family of an attribute of the beans of a type."""

    name: str
    kind: Kind
    factor: float = 1.0
    text: bool = False
    """Whether the value is a word, which goes into a label `status`; the number is then 1."""


def family(table: BeanTable, attribute: str) -> Family | None:
    """The family of an attribute; None for a text of a single bean, for example the class of a connector."""
    at = table.attributes.index(attribute)
    word = bool(table.rows) and isinstance(table.rows[0][1][at], str)
    if word:
        if table.type == "connector-task-metrics" and attribute == "status":
            return Family("kafka_connect_connector_status", "gauge", text=True)
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


def label(tag: str) -> str:
    """The label of a tag: `client-id` becomes `clientid`."""
    return tag.replace("-", "").lower()


def _underlined(name: str) -> str:
    return name.replace("-", "_").replace(".", "_").lower()


Value = float | str
"""The value of an attribute: a number, which is NaN before the first measurement, or a text."""

_PLAIN = re.compile(r"[A-Za-z0-9_%\-. \t]*")
_QUOTED = str.maketrans({"\\": "\\\\", '"': '\\"', "*": "\\*", "?": "\\?", "\n": "\\n"})


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
