"""The names that Prometheus knows beans by: those that Strimzi's rules for its JMX exporter make of them.

All rules at once: `kafka.connect:type=source-task-metrics,connector=...` becomes `kafka_connect_source_task_...`, a
bean of a client (`kafka.consumer:type=consumer-metrics,client-id=...`) `kafka_consumer_...`, and one of a mirror
`kafka_connect_mirror_mirrorsourceconnector_...`. Values of labels keep the quotes that they have in a bean's name, for
dashboards expect them. Strimzi's rules leave out some attributes; here every number has a name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from twinlog.metrics.beans import BeanTable

MIRROR = "kafka.connect.mirror"
CONNECT = "kafka.connect"

Kind = Literal["counter", "gauge"]


@dataclass(frozen=True, slots=True)
class Family:
    """What one attribute of beans of a type becomes."""

    name: str
    kind: Kind
    factor: float = 1.0
    text: bool = False
    """Whether the value is a word, which goes into a label `status`; the number is 1 then."""


def family(table: BeanTable, attribute: str) -> Family | None:
    """None for a text that only the bean itself has, such as the class of a connector."""
    at = table.attributes.index(attribute)
    word = bool(table.rows) and isinstance(table.rows[0][1][at], str)
    if word:
        if table.type == "connector-task-metrics" and attribute == "status":
            return Family("kafka_connect_connector_status", "gauge", text=True)
        return None
    if table.type == "app-info":
        # In seconds, as the rule's valueFactor has it.
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
