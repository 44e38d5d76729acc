"""What an expression is made of, once it is read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from twinlog.model.java_regex.char_set import CharSet


class QuantifierKind(Enum):
    """Which repeats are tried first, and whether fewer are tried at all."""

    GREEDY = auto()
    LAZY = auto()
    POSSESSIVE = auto()


class Anchor(Enum):
    """A position between characters."""

    BEGINNING = auto()
    END = auto()
    LAST_LINE_END = auto()
    LAST_UNIX_LINE_END = auto()
    LINE_BEGIN = auto()
    LINE_END = auto()
    UNIX_LINE_BEGIN = auto()
    UNIX_LINE_END = auto()
    WORD_EDGE = auto()
    NO_WORD_EDGE = auto()
    UNICODE_WORD_EDGE = auto()
    NO_UNICODE_WORD_EDGE = auto()
    CLUSTER_EDGE = auto()


@dataclass(frozen=True, slots=True)
class Text:
    """Characters that stand for themselves, perhaps none."""

    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """One character of a set. `written` is the letter whose case is ignored, or the dot, that stands for the set."""

    chars: CharSet
    written: str | None = None


@dataclass(frozen=True, slots=True)
class AtAnchor:
    """Nothing, at a position."""

    place: Anchor


@dataclass(frozen=True, slots=True)
class LineBreak:
    r"""`\R`."""


@dataclass(frozen=True, slots=True)
class Cluster:
    r"""`\X`: what is one character for a reader."""


@dataclass(frozen=True, slots=True)
class BackReference:
    """What a group matched last."""

    group: int
    ignores_case: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """One after the other."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first that leads on."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class RegexGroup:
    """A parenthesis, with a number where it keeps what it matched."""

    item: Node
    number: int | None


@dataclass(frozen=True, slots=True)
class Atomic:
    """Only the first way in which it matches."""

    item: Node


@dataclass(frozen=True, slots=True)
class LookBehindWindow:
    """From the least to the most characters before a position, once that is so far from the beginning of the name."""

    least: int
    most: int
    begin: int


@dataclass(frozen=True, slots=True)
class LookAround:
    """What follows, or what precedes: then only beginnings in `window` are tried, and none where it is None."""

    item: Node
    ahead: bool
    wanted: bool
    window: LookBehindWindow | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """So many times; `most` is `UNLIMITED` for any number.

    With `of_first_ways` each turn takes the first way that it matches: Java does not try another one of a turn once
    the next one has begun.
    """

    item: Node
    least: int
    most: int
    how: QuantifierKind
    of_first_ways: bool = False


UNLIMITED = 2**31 - 1

Node: TypeAlias = (
    Text
    | OneOf
    | AtAnchor
    | LineBreak
    | Cluster
    | BackReference
    | Sequence
    | Choice
    | RegexGroup
    | Atomic
    | LookAround
    | Repeat
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A whole expression: how many groups keep what they matched, and the numbers of those that have names."""

    item: Node
    groups: int
    names: dict[str, int]
