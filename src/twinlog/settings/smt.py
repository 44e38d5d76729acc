"""Connect's transforms that a flow applies, named in a file and checked there; they travel to tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SmtValue = str | int | bool | tuple[str, ...] | None
"""A setting of a transform or a predicate, of its key's own type."""

Side = Literal["", "key", "value"]
"""The part of a record that a transform reads fields of: the end of its class name, `$Key` or `$Value`."""


@dataclass(frozen=True, slots=True)
class SmtPredicate:
    """A condition of a transform: `kind` is the name of Connect's class, apart from its package."""

    alias: str
    kind: str
    settings: tuple[tuple[str, SmtValue], ...]


@dataclass(frozen=True, slots=True)
class SmtStage:
    """A transform of the chain (Kafka class TransformationStage): `kind` is its class, apart from package and side.

    The transform is applied if its predicate is true, or with `negate` if the predicate is false. With the predicate
    None it is applied to every record.
    """

    alias: str
    kind: str
    side: Side
    settings: tuple[tuple[str, SmtValue], ...]
    predicate: SmtPredicate | None = None
    negate: bool = False

    @property
    def shown(self) -> str:
        """The transform as a message names it: `mask (MaskField$Value)`."""
        return f"{self.alias} ({self.kind}{'$' + self.side.capitalize() if self.side else ''})"

    @property
    def with_condition(self) -> str:
        """The transform with its predicate: `drop (Filter) if not dead (RecordIsTombstone)`."""
        if self.predicate is None:
            return self.shown
        return f"{self.shown} if {'not ' if self.negate else ''}{self.predicate.alias} ({self.predicate.kind})"


@dataclass(frozen=True, slots=True)
class SmtConverter:
    """The way in which bytes of keys or values become fields and are written again.

    `json` is Connect's JsonConverter, with `schemas` in the envelope of schema and payload; `text` is StringConverter.
    With `defaults` a null has the default of its schema (`replace.null.with.default`).
    """

    kind: Literal["json", "text"]
    schemas: bool = False
    defaults: bool = True


@dataclass(frozen=True, slots=True)
class SmtChain:
    """Transforms in their order, and the converters by which they read and write keys and values."""

    stages: tuple[SmtStage, ...]
    key: SmtConverter | None = None
    value: SmtConverter | None = None
