"""The parts of a parsed expression."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from twinlog.model.java_regex.char_set import CharSet


class QuantifierKind(Enum):
    """Which repeats are tried first, and whether fewer repeats are tried at all."""

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
    """Literal characters; the text may be empty."""

    text: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """A character of a set.

    `written` is the letter or the dot in the expression for the set; the letter ignores case.
    """

    chars: CharSet
    written: str | None = None


@dataclass(frozen=True, slots=True)
class AtAnchor:
    """An empty match at a position."""

    place: Anchor


@dataclass(frozen=True, slots=True)
class LineBreak:
    r"""`\R`."""


@dataclass(frozen=True, slots=True)
class Cluster:
    r"""`\X`: the code points of a single character for a reader."""


@dataclass(frozen=True, slots=True)
class BackReference:
    """The last match of a group."""

    group: int
    ignores_case: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    """Items that match in this order."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first option after which the rest of the expression matches."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class RegexGroup:
    """A parenthesis; `number` is set if the group keeps its match."""

    item: Node
    number: int | None


@dataclass(frozen=True, slots=True)
class Atomic:
    """Only the first way in which the item matches."""

    item: Node


@dataclass(frozen=True, slots=True)
class LookBehindWindow:
    """From the least to the most characters before a position.

    The position is at least `begin` characters behind the beginning of the name.
    """

    least: int
    most: int
    begin: int


@dataclass(frozen=True, slots=True)
class LookAround:
    """The text after a position, or before it.

    A look-behind tries only beginnings in `window`, and none if `window` is None.
    """

    item: Node
    ahead: bool
    wanted: bool
    window: LookBehindWindow | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat from `least` to `most` times; `most` is `UNLIMITED` for any number.

    With `of_first_ways` each turn takes the first way that it matches: once the next turn has begun, Java tries no
    other way of an earlier turn.
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
    """A whole expression: the number of groups that keep their match, and the numbers of groups with names."""

    item: Node
    groups: int
    names: dict[str, int]
