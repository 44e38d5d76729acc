"""Beans and families as pages: Prometheus' text, OpenMetrics, and JSON by the names of beans in Jolokia's form.

This module writes beans itself: prometheus_client takes 25 us a sample, and 10,000 partitions have 150,000 samples.
prometheus_client writes the families, and chooses the format for a client.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric

from twinlog.metrics.beans import BeanTable, Family, Value, family, label, quoted

OPENMETRICS = "application/openmetrics-text"
_RARE = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}
_ESCAPED = str.maketrans({"\\": "\\\\", "\n": "\\n", '"': '\\"'})


@dataclass(frozen=True, slots=True)
class Measurements:
    """The measurements of a process at a moment: beans under Kafka's names, and families under twinlog's names."""

    beans: Sequence[BeanTable] = ()
    families: Sequence[Metric] = ()


class Pages:
    """The two pages of a process; `measure` is called for each request, on any thread."""

    def __init__(self, measure: Callable[[], Measurements]) -> None:
        self._measure = measure

    def text(self, accept: str) -> tuple[str, bytes]:
        """The type of the content and the page `/metrics`, for a client with this Accept header."""
        encode, content_type = choose_encoder(accept)
        measured = self._measure()
        beans = bean_text(measured.beans, openmetrics=content_type.startswith(OPENMETRICS))
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


def bean_text(tables: Iterable[BeanTable], *, openmetrics: bool) -> bytes:
    """The samples of all beans, family by family, still without the end of a page."""
    found: dict[str, _FamilyLines] = {}
    for table in tables:
        _add(table, found)
    parts: list[str] = []
    for name, one in found.items():
        shown = name.removesuffix("_total") if openmetrics and one.family.kind == "counter" else name
        parts.append(f"# HELP {shown} {one.about}\n# TYPE {shown} {one.family.kind}\n")
        parts += one.lines
    return "".join(parts).encode()


def _add(table: BeanTable, found: dict[str, _FamilyLines]) -> None:
    names = [label(tag) for tag in table.tags]
    labels = [
        ",".join([f'{name}="{escaped(quoted(tag))}"' for name, tag in zip(names, tags, strict=True)])
        for tags, _ in table.rows
    ]
    plain = [f"{{{text}}} " if text else " " for text in labels]
    for at, attribute in enumerate(table.attributes):
        made = family(table, attribute)
        if made is None:
            continue
        about = f"Attribute {attribute} of {table.domain}:type={table.type}."
        lines = found.setdefault(made.name, _FamilyLines(made, about)).lines
        name = made.name
        if made.text:
            lines += [
                f'{name}{{{text},status="{escaped(str(row[1][at]))}"}} 1\n'
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
