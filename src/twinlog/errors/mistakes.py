"""A mistake in a file of the user: its place, its words, and the id that `twinlog explain` takes.

A line for people begins with the place, as compilers print it, so that an editor jumps there:
`mm2.properties:9: error: tasks.max: '0' is too small; write a whole number from 1, for example 1 [TW-FILE-22]`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal

MistakeLevel = Literal["error", "warning", "note"]


class MistakeKind(StrEnum):
    """The kind of a mistake; the value is its id, which stays the same in every release."""

    UNKNOWN_KEY = "TW-FILE-01"
    DOUBLED_EQUALS = "TW-FILE-02"
    READ_OTHERWISE = "TW-FILE-03"
    WRONG_PATTERN = "TW-FILE-04"
    SLOW_PATTERN = "TW-FILE-05"
    IGNORED_FIELDS = "TW-FILE-06"
    PROVIDER = "TW-FILE-07"
    LOST_REFERENCE = "TW-FILE-08"
    EMPTY_SEPARATOR = "TW-FILE-11"
    SAME_ALIAS = "TW-FILE-12"
    OTHER_ALIAS = "TW-FILE-13"
    SHARED_SYNCS = "TW-FILE-14"
    CYCLE = "TW-FILE-15"
    ONLY_HEARTBEATS = "TW-FILE-16"
    OTHER_CLUSTER = "TW-FILE-17"
    IGNORED = "TW-FILE-19"
    WRONG_VALUE = "TW-FILE-22"
    UNREADABLE_FILE = "TW-FILE-23"
    BROKEN_SYNTAX = "TW-FILE-24"
    OTHER_PROGRAM = "TW-FILE-25"
    MISSING_KEY = "TW-FILE-26"
    IMPOSSIBLE_NAME = "TW-FILE-27"
    LOGIN = "TW-FILE-28"
    TLS = "TW-FILE-29"
    STORE = "TW-FILE-30"
    CLASS = "TW-FILE-31"
    OWN_CODE = "TW-FILE-32"
    TRANSFORM = "TW-FILE-33"
    CONTRADICTION = "TW-FILE-34"
    NOTHING_RUNS = "TW-FILE-35"
    SAME_TOPIC = "TW-FILE-36"
    BOTH_WAYS = "TW-FILE-37"
    WRITTEN_TWICE = "TW-FILE-38"
    DOUBTFUL_PATTERN = "TW-FILE-39"
    SWITCHED_OFF = "TW-FILE-40"
    UNDECLARED = "TW-FILE-41"
    OTHER_THAN_BEFORE = "TW-FILE-42"
    OFFSET_FILE_TAKEN = "TW-WORKER-19"

    @classmethod
    def of(cls, message_id: str) -> MistakeKind | None:
        """The kind with this id; None for another id, for example of a later version."""
        return next((kind for kind in cls if kind.value == message_id), None)


_VERBS = {
    MistakeKind.UNREADABLE_FILE: "give ",
    MistakeKind.BROKEN_SYNTAX: "",
    MistakeKind.OTHER_PROGRAM: "give ",
    MistakeKind.UNKNOWN_KEY: "",
    MistakeKind.LOST_REFERENCE: "",
    MistakeKind.STORE: "give ",
    MistakeKind.OWN_CODE: "expected ",
}
"""The verb in front of a remedy, if it differs from `write`: some remedies are files, some are sentences."""

_KINDS_OF_KEYS = (
    ("sasl.", MistakeKind.LOGIN),
    ("ssl.", MistakeKind.TLS),
    ("transform", MistakeKind.TRANSFORM),
    ("predicates", MistakeKind.TRANSFORM),
    ("config.providers", MistakeKind.PROVIDER),
    (".class", MistakeKind.CLASS),
)


MISSING = "missing"
"""The text of a problem with an absent key."""

_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|\[hidden\]")


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake at a key of a file; an empty `key` means the whole file, a `line` of None an absent line.

    `text` is the mistake; a text of a quoted value alone means that the value is invalid. `expected` is the text to
    write, or the file to give, in the form that follows the verb; without it the text has the way out. Without a `kind`
    the key decides.
    """

    file: str
    line: int | None
    key: str
    text: str
    expected: str = ""
    kind: MistakeKind | None = None

    level: ClassVar[MistakeLevel] = "error"

    @property
    def place(self) -> str:
        """`file:line`."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    @property
    def id(self) -> str:
        """The id that `twinlog explain` takes, for example TW-FILE-22."""
        return self._kind.value

    @property
    def _kind(self) -> MistakeKind:
        if self.kind is not None:
            return self.kind
        if self.text == MISSING:
            return MistakeKind.MISSING_KEY
        return next((kind for part, kind in _KINDS_OF_KEYS if part in self.key), MistakeKind.WRONG_VALUE)

    @property
    def sentence(self) -> str:
        """The mistake and its way out, free of place, key and id."""
        return f"{self.described}; {self._verb}{self.expected}" if self.expected else self.described

    @property
    def has_sentence(self) -> bool:
        """Whether `expected` is a sentence of its own, instead of a text to write."""
        return not self._verb

    @property
    def _verb(self) -> str:
        return _VERBS.get(self._kind, "write ")

    @property
    def described(self) -> str:
        """The mistake as a sentence of its own."""
        return f"{self.text} is invalid" if _QUOTED.fullmatch(self.text) else self.text

    @property
    def line_for_editors(self) -> str:
        """`FILE:LINE: error: KEY: TEXT [ID]`."""
        return self._line(f"{self.level}: ")

    def as_warning(self) -> ConfigWarning:
        """The same as a warning, for a program that starts in spite of it, as the original does."""
        return ConfigWarning(self.file, self.line, self.key, self.text, self.expected, self._kind)

    def as_problem(self) -> ConfigProblem:
        """The same as a problem."""
        return ConfigProblem(self.file, self.line, self.key, self.text, self.expected, self._kind)

    def __str__(self) -> str:
        """The same without the level, for a log, whose lines have a level of their own."""
        return self._line("")

    def _line(self, level: str) -> str:
        key = f"{self.key}: " if self.key else ""
        return f"{self.place}: {level}{key}{self.sentence} [{self.id}]"


@dataclass(frozen=True, slots=True)
class ConfigProblem(Mistake):
    """A mistake that prevents a start."""


@dataclass(frozen=True, slots=True)
class ConfigWarning(Mistake):
    """A text that is legal and surely unintended, or that has another effect than a reader expects; the start goes
    ahead."""

    level: ClassVar[MistakeLevel] = "warning"

    @property
    def of_other_programs(self) -> bool:
        """Whether it lists keys or fields that MirrorMaker 2's Java processes or brokers read: its file needs them."""
        return not self.key and self.kind in {MistakeKind.IGNORED, MistakeKind.IGNORED_FIELDS}


@dataclass(frozen=True, slots=True)
class ConfigNote(Mistake):
    """A difference that a reader should know; the text is as it should be."""

    level: ClassVar[MistakeLevel] = "note"


def counts(mistakes: Sequence[Mistake]) -> str:
    """`2 errors, 1 warning`, and the notes if there are any."""
    levels = [mistake.level for mistake in mistakes]
    notes = levels.count("note")
    found = [_many(levels.count("error"), "error"), _many(levels.count("warning"), "warning")]
    return ", ".join([*found, *([_many(notes, "note")] if notes else [])])


def _many(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
