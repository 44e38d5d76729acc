"""The properties of a configuration key. The keys themselves are in the modules that `keys.table` imports.

A key is a row: settings, validation, `--explain`, the definitions of a Connect worker and the page of keys read it. The
default of a key that a field of the settings holds is the default of that field.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import Any, Literal

from twinlog.settings.per_topic import PerTopic
from twinlog.settings.written import written


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
    TOPIC_PART_OR_NOTHING = "characters that are legal in topic names (a-z A-Z 0-9 . _ -), or an empty text"
    TOPIC = "a legal topic name: a-z A-Z 0-9 . _ -, up to 249 characters"
    LISTENERS = "http://host:port or https://host:port, separated by commas"
    HEADERS = "set, add, setDate or addDate and Name: value, separated by commas"
    FUNCTION = "package.module:function"
    RESET = "earliest, latest, none, or by_duration: and an ISO 8601 duration, as in by_duration:P7D"
    START = "earliest, latest, a moment as 2026-11-01T00:00:00Z, or a duration as P7D"
    BROKERS = "an empty text, because brokers are asked (bootstrap.servers)"


class UpdateMode(StrEnum):
    """How a running process takes over another value of a key."""

    AT_ONCE = "at once"
    """The flow continues with the value; its copying is uninterrupted. Only the driver reads the field of the key: a
    field that code of tasks reads needs another mode."""

    PAUSE = "pause"
    """The copiers of the flow end in order and begin again with the value, within a second or two; each record is
    copied once."""

    RESTART = "restart"
    """The value counts from the next start of the process on; until then the flow has the value of its start."""

    NOTHING = "nothing"
    """The key is ignored, at least at its place in the file."""


AT_ONCE, PAUSE, RESTART = UpdateMode.AT_ONCE, UpdateMode.PAUSE, UpdateMode.RESTART

Release = tuple[int, int]
"""A line of Kafka's releases, for example 4.3."""


class Importance(StrEnum):
    """How important a key is (Kafka class ConfigDef.Importance)."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(StrEnum):
    """How wide a field a form gives to a key (Kafka class ConfigDef.Width)."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


@dataclass(frozen=True, slots=True)
class Shown:
    """How a Connect worker shows a key. Only keys of Connect itself have a `group` and a `label`.

    `default` is set if a connector has another default than a file. Kafka has the key from the release `since` on, and
    has dropped it in `until`. A `required` key has to be written.
    """

    importance: Importance
    group: str | None = None
    width: Width = Width.NONE
    label: str | None = None
    default: str | None = None
    since: Release = (3, 0)
    until: Release = (99, 0)
    required: bool = False

    def exists_in(self, release: Release) -> bool:
        """Whether a worker of that release knows the key."""
        return self.since <= release < self.until


HIGH, MEDIUM, LOW = Shown(Importance.HIGH), Shown(Importance.MEDIUM), Shown(Importance.LOW)


@dataclass(frozen=True, slots=True)
class InWorkerFile:
    """The differences of a key in a Connect worker's own file, which reads it unless `works` is false.

    An empty `doc` and a `default` of None leave those of the row.
    """

    doc: str = ""
    default: str | None = None
    works: bool = True


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
    other class. Values of `instead` are replaced by a value that is at least as safe. `old_name` is the name in older
    files; it counts if the new name is missing.

    `update` is the mode for another value while a process runs, for a working key of a flow or of the process. A
    Connect worker lists a connector's key with the facts of `shown`; `in_worker_file` are the differences in the
    worker's own file.
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
    old_name: str = ""
    update: UpdateMode | None = None
    shown: Shown | None = None
    in_worker_file: InWorkerFile | None = None

    @property
    def secret(self) -> bool:
        """Whether the value is a secret, kept from all output."""
        return self.type is KeyType.PASSWORD

    @property
    def update_mode(self) -> UpdateMode:
        """How a running process takes over another value; a key without `update` needs a restart."""
        return UpdateMode.NOTHING if self.effect is not Effect.WORKS else self.update or UpdateMode.RESTART

    def pattern_in(self, name: str) -> str | None:
        """The topic pattern in a key of the form `NAME.PATTERN`; None if `name` is the key itself."""
        prefix = f"{self.name}."
        return name.removeprefix(prefix) if self.per_topic and name.startswith(prefix) else None


def setting(kind: type, name: str, type: KeyType, doc: str, level: Level, **rules: Any) -> Key:  # noqa: A002
    """The row of a key whose value is in a field of the settings class `kind`, with the field's default."""
    return Key(name, type, default_of(kind, name), doc, level, **rules)


def default_of(kind: type, name: str) -> str:
    """The default of the field of `kind` that the key `name` fills, as a file would have it. Raises KeyError."""
    defaults = {field.name: field.default for field in fields(kind)}
    found = next((defaults[field] for field, how in written(kind).items() if how.key == name), MISSING)
    if found is MISSING:
        raise KeyError(f"{kind.__name__} lacks a default for {name}")
    value = found.default if isinstance(found, PerTopic) else found
    if isinstance(value, bool):
        return str(value).lower()
    return (
        ", ".join(map(str, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)
    )
