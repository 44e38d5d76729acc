"""MBeans as Kafka registers them: a domain, a type, tags, and attributes (Kafka class JmxReporter).

Beans of one type come as a table, because there are thousands for partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Value = float | str
"""Of an attribute: a number, which may be NaN where nothing was measured, or a text."""

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
    """A table of one bean; `client_id` among the tags stands for client-id."""
    named = list(attributes)
    row = tuple(tags.values()), tuple(value for _, value in named)
    names = tuple(name.replace("_", "-") for name in tags)
    return BeanTable(domain, type_, names, tuple(name for name, _ in named), [row])


def quoted(value: str) -> str:
    """The value of a tag as it stands in a bean's name: in quotes where it has any but the plainest characters
    (Kafka class Sanitizer, Java's ObjectName.quote)."""
    return value if _PLAIN.fullmatch(value) else f'"{value.translate(_QUOTED)}"'
