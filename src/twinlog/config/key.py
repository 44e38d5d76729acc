"""What is known about one configuration key. The keys themselves stand in `keys.py` and the files it lists."""

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
    """Where a key may be written."""

    PROCESS = "top level"
    FLOW = "top level or A->B."
    ONE_FLOW = "A->B. only"
    CLUSTER = "alias."
    SECURITY = "top level, alias. or a client's prefix"
    CONSUMER = "alias.consumer."
    PRODUCER = "alias.producer."
    ADMIN = "alias.admin."


class Effect(StrEnum):
    """What a key does: it works, or it configures a Java process (JVM) or a broker (BROKER) and has no effect here."""

    WORKS = "works"
    JVM = "jvm"
    BROKER = "broker"


class Form(StrEnum):
    """A shape a value must have beyond its type."""

    ALIASES = "cluster aliases, separated by commas"
    SERVERS = "host:port entries, separated by commas"
    PATTERNS = "regular expressions, separated by commas"
    TOPIC_PART = "characters that are legal in topic names (a-z A-Z 0-9 . _ -)"
    SEPARATOR = "characters that are legal in topic names (a-z A-Z 0-9 . _ -), or nothing with an identity policy"
    TOPIC = "a legal topic name"
    LISTENERS = "http://host:port or https://host:port, separated by commas"
    HEADERS = "set, add, setDate or addDate and Name: value, separated by commas"
    FUNCTION = "package.module:function"
    BROKERS = "nothing, because brokers are asked (bootstrap.servers)"


UnknownKeys = Literal["fail", "warn"]
"""What an unknown key causes: it stops the start, or is only reported."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `default` is written as in a file, None where there is none; `minimum` and `maximum` are inclusive,
    `nonzero` leaves out the 0 between them.

    A `name` ending in `.*` stands for every key below that prefix. `choices` are the only values accepted, in any case
    if `any_case`. `accepted_classes` are the only Java class names accepted, because another class would change what is
    copied; with `custom` a Python class may be named instead.
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
    form: Form | None = None
    accepted_classes: tuple[str, ...] = ()
    custom: bool = False

    @property
    def secret(self) -> bool:
        """Whether the value must never be printed."""
        return self.type is KeyType.PASSWORD
