"""The parts of a parsed expression, and how many characters an expression may match.

The number is Java's estimate, by which it refuses or limits a look-behind. Java counts in 32 bits and takes `x*` for a
number of times that fits in 32 bits. So Java accepts some unlimited expressions in a look-behind, and some of them fail
to match any text. The lengths follow these rules (`Pattern.TreeInfo`, Java 17).
"""

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

    A look-behind tries only beginnings in `window`; it fails if `window` is None.
    """

    item: Node
    ahead: bool
    wanted: bool
    window: LookBehindWindow | None = None


@dataclass(frozen=True, slots=True)
class Repeat:
    """A repeat from `least` to `most` times; `most` is `UNLIMITED` for any number.

    With `of_first_ways` each turn takes the first way that it matches: once the next turn has begun, Java keeps the
    ways of all earlier turns.
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


_LARGE = 0xFFFFFFF
_INTS = 2**32
_LONGEST = 2**15
"""Every name is shorter."""


@dataclass(slots=True)
class Lengths:
    """The least and the most characters; whether there is a most; whether there is only a single way to match."""

    least: int = 0
    most: int = 0
    limited: bool = True
    one_way: bool = True


def window(found: Lengths) -> LookBehindWindow | None:
    """The window in which Java looks back for an expression that ends at a position; None for an empty window."""
    low, high, begin = found.least, found.most, 0
    if high < _LONGEST - _INTS // 2:
        # From this position on the difference to `high` overflows as well.
        begin, high = high + _INTS // 2, UNLIMITED
    return LookBehindWindow(low, high, begin) if high >= low else None


def _int(number: int) -> int:
    return (number + _INTS // 2) % _INTS - _INTS // 2


def lengths(node: Node) -> Lengths:
    """Java's count of an expression."""
    return _followed(node, Lengths())


def _followed(node: Node, info: Lengths) -> Lengths:
    """The count so far, with `node` added."""
    # After a choice Java counts again from zero, and adds the earlier count at the end: overflowing sums show it.
    total = Lengths()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Sequence):
            waiting.extend(reversed(node.items))
        elif isinstance(node, RegexGroup):
            waiting.append(node.item)
        elif isinstance(node, Atomic):
            info = _followed(node.item, info)
        elif isinstance(node, Repeat) and (node.least, node.most) == (0, 1) and not _is_optional_group(node):
            least = info.least
            info = _followed(node.item, info)
            info.least, info.one_way = least, False
        elif isinstance(node, Choice) or _is_optional_group(node):
            total, info = _sum(_sum(total, info), _branch(node)), Lengths()
        else:
            _add(node, info)
    return _sum(total, info)


def _sum(one: Lengths, other: Lengths) -> Lengths:
    return Lengths(
        _int(one.least + other.least),
        _int(one.most + other.most),
        one.limited and other.limited,
        one.one_way and other.one_way,
    )


def _is_optional_group(node: Node) -> bool:
    return (
        isinstance(node, Repeat)
        and isinstance(node.item, RegexGroup)
        and (node.least, node.most) == (0, 1)
        and node.how is not QuantifierKind.POSSESSIVE
    )


def _branch(node: Node) -> Lengths:
    options = node.options if isinstance(node, Choice) else (node.item, Text("")) if isinstance(node, Repeat) else ()
    found = [lengths(option) for option in options]
    return Lengths(
        min(each.least for each in found),
        max(-1, *(each.most for each in found)),
        all(each.limited for each in found),
        one_way=False,
    )


def _add(node: Node, info: Lengths) -> None:
    if isinstance(node, Text):
        info.least, info.most = _int(info.least + len(node.text)), _int(info.most + len(node.text))
    elif isinstance(node, OneOf):
        info.least, info.most = _int(info.least + 1), _int(info.most + 1)
    elif isinstance(node, LineBreak):
        info.least, info.most = _int(info.least + 1), _int(info.most + 2)
    elif isinstance(node, Cluster):
        info.least, info.one_way = _int(info.least + 1), False
    elif isinstance(node, BackReference):
        info.limited = False
    elif isinstance(node, Repeat):
        _repeat(node, info)


def _repeat(node: Repeat, info: Lengths) -> None:
    one_char = isinstance(node.item, OneOf) or (isinstance(node.item, Text) and len(node.item.text) == 1)
    if one_char and node.most == UNLIMITED and node.how is QuantifierKind.GREEDY:
        info.least = _int(info.least + node.least)
        if info.limited:
            info.most = _int(info.most + UNLIMITED)
        info.one_way = False
        return
    found = lengths(node.item)
    if isinstance(node.item, RegexGroup) and node.how is not QuantifierKind.POSSESSIVE and not found.one_way:
        info.limited = info.one_way = False
        return
    least = _int(found.least * node.least + info.least)
    info.least = _LARGE if least < info.least else least
    if info.limited and found.limited:
        most = _int(found.most * node.most + info.most)
        info.limited = most >= info.most
        info.most = most
    else:
        info.limited = False
    info.one_way &= found.one_way and node.least == node.most
