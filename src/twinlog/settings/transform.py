"""The transforms of a flow's records, and the rule for records that a flow cannot copy; plain values for tasks.

Connect's transforms are named in a file and checked there. The rule is Connect's `errors.*`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from twinlog.settings.written import WrittenAs, out_of

Tolerance = Literal["none", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedRecordSettings:
    """A record that a transform fails on, or that the target refuses, holds its partition.

    With the tolerance `all` the record is left out (KIP-298, KIP-779).

    A left-out record is written unchanged to `dead_letter_topic` of the target, if there is that topic. With
    `dead_letter_headers` the record has headers there with its origin and the reason. `dead_letter_replication_factor`
    of -1 means the broker's default. With `log_errors` each record is an event, and with `log_messages` the event shows
    the record.
    """

    tolerance: Annotated[Tolerance, WrittenAs("errors.tolerance")] = "none"
    dead_letter_topic: Annotated[str, WrittenAs("errors.deadletterqueue.topic.name")] = ""
    dead_letter_replication_factor: Annotated[int, WrittenAs("errors.deadletterqueue.topic.replication.factor")] = 3
    dead_letter_headers: Annotated[bool, WrittenAs("errors.deadletterqueue.context.headers.enable")] = False
    log_errors: Annotated[bool, WrittenAs("errors.log.enable")] = False
    log_messages: Annotated[bool, WrittenAs("errors.log.include.messages")] = False


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


@dataclass(frozen=True, slots=True)
class TransformSettings(FailedRecordSettings):
    """The transforms of a flow, in the order `smts`, `function`, `sql`.

    `function` is `package.module:function`; only that name travels, and each task imports it. `smts` are Connect's
    transforms, and `sql` is a query of Spark SQL.
    """

    function: Annotated[str, WrittenAs("transform")] = ""
    smts: Annotated[SmtChain | None, out_of("transforms")] = None
    sql: Annotated[str, WrittenAs("transform.sql")] = ""

    @property
    def shown(self) -> str:
        """The transforms, for people: names of Connect's transforms, the function, and `SQL` for a query."""
        smts = () if self.smts is None else (stage.shown for stage in self.smts.stages)
        return ", ".join((*smts, *self._own("SQL")))

    @property
    def steps(self) -> str:
        """All changes to a record, in their order, with the conditions and the query."""
        smts = () if self.smts is None else (stage.with_condition for stage in self.smts.stages)
        return ", then ".join((*smts, *self._own(" ".join(self.sql.split()))))

    @property
    def routes_are_known(self) -> bool:
        """Whether names of topics alone decide the routes of records, as Connect's RegexRouter does on every record."""
        stages = () if self.smts is None else self.smts.stages
        decides = (one.kind == "TimestampRouter" or (one.kind == "RegexRouter" and one.predicate) for one in stages)
        return not self.function and not self.sql and not any(decides)

    def _own(self, sql: str) -> tuple[str, ...]:
        return tuple(name for name in (self.function, sql if self.sql else "") if name)
