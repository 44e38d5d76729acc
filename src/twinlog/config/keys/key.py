"""The properties of a configuration key. The keys themselves are in the modules that `keys.table` imports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal


class KeyType(StrEnum):
    """How a value is read (Kafka class ConfigDef); ENUM is a STRING with a fixed set of values."""

    BOOL = "BOOL"
    INT = "INT"
    LONG = "LONG"
    SHORT = "SHORT"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    STRING = "STRING"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"
    ENUM = "ENUM"


class Level(StrEnum):
    """The places at which a key may be written."""

    PROCESS = "top level"
    FLOW = "top level or A->B."
    ONE_FLOW = "A->B. only"
    CLUSTER = "alias."
    SECURITY = "top level, alias. or a client's prefix"
    CONSUMER = "alias.consumer."
    PRODUCER = "alias.producer."
    ADMIN = "alias.admin."


class Effect(StrEnum):
    """The effect of a key: it works, or it configures a Java process (JVM) or a broker (BROKER) and is ignored here."""

    WORKS = "works"
    JVM = "jvm"
    BROKER = "broker"


class ValueForm(StrEnum):
    """A shape a value must have beyond its type."""

    ALIASES = "cluster aliases, separated by commas"
    SERVERS = "host:port entries, separated by commas"
    PATTERNS = "regular expressions, separated by commas"
    TOPIC_PART_OR_NOTHING = "characters that are legal in topic names (a-z A-Z 0-9 . _ -), or nothing"
    TOPIC = "a legal topic name"
    LISTENERS = "http://host:port or https://host:port, separated by commas"
    HEADERS = "set, add, setDate or addDate and Name: value, separated by commas"
    FUNCTION = "package.module:function"
    RESET = "earliest, latest, none, or by_duration: and an ISO 8601 duration such as by_duration:P7D"
    START = "earliest, latest, a moment such as 2026-11-01T00:00:00Z, or a duration such as P7D"
    BROKERS = "nothing, because brokers are asked (bootstrap.servers)"


UnknownKeys = Literal["fail", "warn"]
"""The effect of an unknown key: it stops the start, or is only reported."""


@dataclass(frozen=True, slots=True)
class ValueReplacement:
    """Values that MirrorMaker 2 starts with and that are invalid here: `value` is used in their place.

    `why` is the reason, for a warning. `written` lists these values; if it is empty they are the whole numbers above
    the key's `maximum`, as far as the type has them.
    """

    value: str
    why: str
    written: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Key:
    """The rules of a key.

    `default` is written as in a file, None if it is missing; `minimum` and `maximum` are inclusive, `nonzero` leaves
    out the 0 between them.

    A `name` ending in `.*` means every key below that prefix. With `per_topic` the key also has the form
    `NAME.PATTERN`, for topics whose whole name matches the expression. `choices` are the only values accepted, in any
    case if `any_case`. `accepted_classes` are the only Java class names accepted, because another class would change
    the copied records. With `custom` a Python class may be named instead, and `way_out` ends the message about any
    other class. Values of `instead` are replaced by a value that is at least as safe.
    """

    name: str
    type: KeyType
    default: str | None
    doc: str
    level: Level
    effect: Effect = Effect.WORKS
    minimum: float | None = None
    maximum: float | None = None
    nonzero: bool = False
    choices: tuple[str, ...] = ()
    any_case: bool = False
    form: ValueForm | None = None
    accepted_classes: tuple[str, ...] = ()
    custom: bool = False
    per_topic: bool = False
    way_out: str = ""
    instead: ValueReplacement | None = None

    @property
    def secret(self) -> bool:
        """Whether the value must never be printed."""
        return self.type is KeyType.PASSWORD

    def pattern_in(self, name: str) -> str | None:
        """The topic pattern in a key of the form `NAME.PATTERN`; None if `name` is the key itself."""
        prefix = f"{self.name}."
        return name.removeprefix(prefix) if self.per_topic and name.startswith(prefix) else None
