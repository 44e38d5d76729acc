"""Reads an expression by Java's grammar (`Pattern.compile` of Java 17, with flags in the text alone)."""

from __future__ import annotations

import re

from twinlog.errors import PatternError
from twinlog.model.java_regex.char_set import EVERY, LINE_ENDS, CharSet, codes
from twinlog.model.java_regex.characters import Flags, Source, char_class, escaped, one_of
from twinlog.model.java_regex.tree import (
    UNLIMITED,
    Anchor,
    AtAnchor,
    Atomic,
    BackReference,
    Choice,
    Cluster,
    Expression,
    LineBreak,
    LookAround,
    Node,
    OneOf,
    QuantifierKind,
    RegexGroup,
    Repeat,
    Sequence,
    Text,
    lengths,
    window,
)

_PLAIN = re.compile(r"[\w:/@~!%&=<>,;-]+")
_FLAGS = {
    "i": Flags.IGNORE_CASE,
    "m": Flags.MULTILINE,
    "s": Flags.DOTALL,
    "d": Flags.UNIX_LINES,
    "u": Flags.UNICODE_CASE,
    "x": Flags.COMMENTS,
    "U": Flags.UNICODE_CLASSES | Flags.UNICODE_CASE,
}
_DIGITS = frozenset("0123456789")


def parsed(text: str) -> Expression:
    """The tree of an expression. Raises PatternError for an expression that Java refuses."""
    try:
        return _RegexParser(text).expression()
    except RecursionError:
        raise PatternError("parentheses nested too deep", None, text) from None


class _RegexParser:
    def __init__(self, text: str) -> None:
        self._source = Source(text)
        self._groups = 0
        self._names: dict[str, int] = {}

    def expression(self) -> Expression:
        item = self._choice()
        if self._source.raw():
            raise self._source.error("a parenthesis that lacks its opening")
        return Expression(item, self._groups, self._names)

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._source.peek() == "|":
            self._source.after()
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Node:
        items: list[Node] = []
        source = self._source
        while (char := source.peek()) and char not in {"|", ")"}:
            if char in {"?", "*", "+"}:
                raise source.error(f"nothing that {char} could repeat")
            if char == "(":
                group = self._parenthesis()
                if group is not None:
                    items.append(group)
                continue
            items.append(self._repeated(self._atom(char)))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _atom(self, char: str) -> Node:
        source = self._source
        if char == "[":
            return OneOf(char_class(source))
        if char == "\\":
            return self._escape()
        if char == "{":
            # A repeat count behind another count repeats an empty text.
            return Text("")
        if not source.flags:
            plain = _PLAIN.match(source.chars, source.at)
            if plain is not None:
                # A repeat belongs to the last character only.
                end = plain.end()
                if end - plain.start() > 1 and source.chars[end : end + 1] in {"?", "*", "+", "{"}:
                    end -= 1
                source.at = end
                return Text(source.chars[plain.start() : end])
        source.at += 1
        if char == "^":
            return AtAnchor(self._line_begin())
        if char == "$":
            return AtAnchor(self._line_end(multiline=source.has(Flags.MULTILINE)))
        if char == ".":
            return OneOf(self._dot(), char)
        return self._character(ord(char))

    def _character(self, code: int) -> Node:
        found = one_of(code, self._source.flags)
        return Text(chr(code)) if found == codes([code]) else OneOf(found, chr(code))

    def _dot(self) -> CharSet:
        if self._source.has(Flags.DOTALL):
            return EVERY
        return ~codes([10]) if self._source.has(Flags.UNIX_LINES) else ~LINE_ENDS

    def _line_begin(self) -> Anchor:
        if not self._source.has(Flags.MULTILINE):
            return Anchor.BEGINNING
        return Anchor.UNIX_LINE_BEGIN if self._source.has(Flags.UNIX_LINES) else Anchor.LINE_BEGIN

    def _line_end(self, *, multiline: bool) -> Anchor:
        if self._source.has(Flags.UNIX_LINES):
            return Anchor.UNIX_LINE_END if multiline else Anchor.LAST_UNIX_LINE_END
        return Anchor.LINE_END if multiline else Anchor.LAST_LINE_END

    def _escape(self) -> Node:
        source = self._source
        at = source.at
        source.at += 1
        found = escaped(source)
        if isinstance(found, CharSet):
            return OneOf(found)
        if found is not None:
            return self._character(found)
        letter = source.raw()
        source.at += 1
        if letter in _DIGITS:
            return self._again(self._number(int(letter)))
        if letter == "k":
            return self._again(self._named(at))
        place = self._place(letter)
        if place is not None:
            return AtAnchor(place)
        if letter in {"R", "X"}:
            return LineBreak() if letter == "R" else Cluster()
        raise source.error(f"an escape \\{letter} that Java lacks", at)

    def _place(self, letter: str) -> Anchor | None:
        source = self._source
        unicode = source.has(Flags.UNICODE_CLASSES)
        if letter == "b" and source.peek() == "{" and source.raw(1) == "g":
            at = source.at - 2
            source.at += 2
            if source.read() != "}":
                raise source.error(r"an unclosed \b{g", at)
            return Anchor.CLUSTER_EDGE
        if letter == "b":
            return Anchor.UNICODE_WORD_EDGE if unicode else Anchor.WORD_EDGE
        if letter == "B":
            return Anchor.NO_UNICODE_WORD_EDGE if unicode else Anchor.NO_WORD_EDGE
        if letter in {"A", "G"}:
            return Anchor.BEGINNING
        if letter == "z":
            return Anchor.END
        return self._line_end(multiline=False) if letter == "Z" else None

    def _again(self, group: int) -> Node:
        return BackReference(group, self._source.has(Flags.IGNORE_CASE))

    def _number(self, number: int) -> int:
        """The number of a group: the most digits that name a group that has begun, and one digit at least."""
        while self._source.peek() in _DIGITS and number * 10 + int(self._source.peek()) <= self._groups:
            number = number * 10 + int(self._source.read())
        return number

    def _named(self, at: int) -> int:
        if self._source.read() != "<":
            raise self._source.error(r"a \k that lacks a name behind it, as in \k<name>", at)
        name = self._name(self._source.read(), at)
        if name not in self._names:
            raise self._source.error(f"a group <{name}> that is missing before it", at)
        return self._names[name]

    def _name(self, char: str, at: int) -> str:
        name = ""
        while char.isascii() and char.isalnum() and (name or char.isalpha()):
            name += char
            char = self._source.read()
        if not name or char != ">":
            raise self._source.error("a name of a group that needs letters and digits, with a > behind it", at)
        return name

    def _parenthesis(self) -> Node | None:
        """A group with its repeat; None for a switch of flags like `(?i)`."""
        source = self._source
        at, flags = source.at, source.flags
        if source.after() != "?":
            made: Node = self._kept(at)
        else:
            kind = source.raw(1)
            source.at += 2
            if kind == ":":
                made = RegexGroup(self._inner(at), None)
            elif kind in {"=", "!"}:
                made = LookAround(self._inner(at), ahead=True, wanted=kind == "=")
            elif kind == ">":
                made = Atomic(self._inner(at))
            elif kind == "<":
                made = self._angle(at)
            else:
                source.at -= 1
                self._switch()
                end = source.read()
                if end == ")":
                    return None
                if end == "c":
                    raise source.error("the flag c, for canonical equivalence, which is unsupported", at)
                if end != ":":
                    raise source.error("a group of a kind that Java lacks", at)
                made = RegexGroup(self._inner(at), None)
        source.flags = flags
        return self._repeated(made)

    def _kept(self, at: int) -> Node:
        self._groups += 1
        number = self._groups
        return RegexGroup(self._inner(at), number)

    def _inner(self, at: int) -> Node:
        item = self._choice()
        if self._source.read() != ")":
            raise self._source.error("an unclosed parenthesis", at)
        return item

    def _angle(self, at: int) -> Node:
        source = self._source
        char = source.read()
        if char not in {"=", "!"}:
            name = self._name(char, at)
            if name in self._names:
                raise source.error(f"a second group <{name}>", at)
            self._names[name] = self._groups + 1
            return self._kept(at)
        item = self._inner(at)
        found = lengths(item)
        if not found.limited:
            raise source.error("a look-behind of unlimited length", at)
        return LookAround(item, ahead=False, wanted=char == "=", window=window(found))

    def _switch(self) -> None:
        """Read flags, up to the first other character."""
        source, on = self._source, True
        char = source.peek()
        while char in _FLAGS or (char == "-" and on):
            if char == "-":
                on = False
            elif on:
                source.flags |= _FLAGS[char]
            else:
                source.flags &= ~_FLAGS[char]
            char = source.after()

    def _repeated(self, item: Node) -> Node:
        source = self._source
        char = source.peek()
        if char == "?":
            least, most = 0, 1
        elif char in {"*", "+"}:
            least, most = int(char == "+"), UNLIMITED
        elif char == "{":
            least, most = self._count()
        else:
            return item
        sign = source.after()
        how = {"?": QuantifierKind.LAZY, "+": QuantifierKind.POSSESSIVE}.get(sign, QuantifierKind.GREEDY)
        if how is not QuantifierKind.GREEDY:
            source.at += 1
        # Java tries further ways of a group's earlier turn only if it sees that more than a single way may exist.
        tries = isinstance(item, RegexGroup) and how is not QuantifierKind.POSSESSIVE and not lengths(item).one_way
        of_first_ways = not tries and ((least, most) != (0, 1) or isinstance(item, LineBreak))
        return Repeat(item, least, most, how, of_first_ways=of_first_ways)

    def _count(self) -> tuple[int, int]:
        """The least and the most of `{2,3}`, read up to its last brace."""
        source = self._source
        at, char = source.at, source.raw(1)
        if char not in _DIGITS:
            raise source.error("a { that lacks its repeat count, as in {3}")
        source.at += 2
        least, char = self._whole(char, at)
        most = least
        if char == ",":
            most, char = self._whole(source.read(), at)
            if char == "}" and source.raw(-2) == ",":
                most = UNLIMITED
        if char != "}":
            raise source.error("an unclosed repeat count", at)
        if most < least:
            raise source.error("a repeat count whose end is below its beginning", at)
        source.at -= 1
        return least, most

    def _whole(self, char: str, at: int) -> tuple[int, str]:
        """A number that begins with `char`, 0 for a missing number, and the character behind it."""
        digits = ""
        while char in _DIGITS:
            digits += char
            char = self._source.read()
        digits = digits.lstrip("0") or "0"
        if len(digits) > len(str(UNLIMITED)) or int(digits) > UNLIMITED:
            raise self._source.error(f"a repeat count above {UNLIMITED}", at)
        return int(digits), char
