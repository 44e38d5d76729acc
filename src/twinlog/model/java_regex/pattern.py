"""A compiled expression: its matches with names, in bounded time.

An expression is translated to the language of `regex`, which matches it. Sets are written as ranges and flags as sets,
so that `regex` sees only structure. The look-behind of `regex` reads backwards. Java reads forwards from each place in
reach, and so does this translation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import regex

from twinlog.errors import PatternError
from twinlog.model.java_regex.char_set import EVERY, CharSet, Range
from twinlog.model.java_regex.parser import parsed
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
)

LONGEST = 2**15 - 1
"""Characters of the longest name in Kafka's protocol: a longer repeat means the same."""
MOST_COPIES = 50_000
"""The most parts that `regex` may make of an expression: a part for each required repeat, 50 MB in all."""

_ANY = "[\\x00-\U0010ffff]"
_NEVER = "(?!)"
_LETTER = r"[\p{L}\p{Nd}]"
_WORD = r"[\p{L}\p{Nd}_]"
_UNICODE_WORD = r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\u200c\u200d]"
_SEPARATORS = r"[\r\x85\u2028\u2029]"


def _edge(before: str, behind: str, *, wanted: bool) -> str:
    same = rf"(?:(?<={before})(?={behind})|(?<!{before})(?!{behind}))"
    return rf"(?!{same})" if wanted else same


# A mark belongs to the letter before it.
_EDGES = rf"(?:{_WORD}|{_LETTER}\p{{Mn}}+)", rf"(?:{_WORD}|(?<={_LETTER}\p{{Mn}}*)\p{{Mn}})"
_PLACES = {
    Anchor.BEGINNING: r"\A",
    Anchor.END: r"\Z",
    Anchor.LAST_LINE_END: rf"(?=(?:\r\n|(?<!\r)\n|{_SEPARATORS})?\Z)",
    Anchor.LAST_UNIX_LINE_END: r"(?=\n?\Z)",
    Anchor.LINE_BEGIN: r"(?!\Z)(?:\A|(?<=[\n\x85\u2028\u2029])|(?<=\r)(?!\n))",
    Anchor.LINE_END: rf"(?=\Z|{_SEPARATORS}|(?<!\r)\n)",
    Anchor.UNIX_LINE_BEGIN: r"(?!\Z)(?:\A|(?<=\n))",
    Anchor.UNIX_LINE_END: r"(?=\Z|\n)",
    Anchor.WORD_EDGE: _edge(*_EDGES, wanted=True),
    Anchor.NO_WORD_EDGE: _edge(*_EDGES, wanted=False),
    Anchor.UNICODE_WORD_EDGE: _edge(_UNICODE_WORD, _UNICODE_WORD, wanted=True),
    Anchor.NO_UNICODE_WORD_EDGE: _edge(_UNICODE_WORD, _UNICODE_WORD, wanted=False),
    Anchor.CLUSTER_EDGE: r"(?:\A|(?<=\X))",
}


@dataclass(frozen=True, slots=True)
class RegexFragment:
    """A part in the language of `regex`; the least characters that it matches; how many copies `regex` makes.

    `size` is the number of parts as written, `copies` the number of copies of these parts.
    """

    text: str
    least: int = 0
    size: int = 1
    copies: int = 0


class UntranslatableError(ValueError):
    """Java accepts the expression, and `regex` is unable to match it."""


def group_name(number: int) -> str:
    """The name of a group in the translation, which may have further groups."""
    return f"g{number}"


def translated(expression: Expression) -> str:
    """The expression for a `regex` that has all flags off. Raises UntranslatableError."""
    translation = _Translation(expression)
    written = translation.write(expression.item)
    if written.copies > MOST_COPIES:
        raise UntranslatableError("repeat counts that together ask for more characters than a name has")
    # Impossible parts are left out; references to their groups remain.
    left = "".join(
        f"(?P<{group_name(number)}>)" for number in range(1, expression.groups + 1) if number not in translation.groups
    )
    return f"(?:{written.text}|{_NEVER}{left})" if left else written.text


class _Translation:
    def __init__(self, expression: Expression) -> None:
        self.groups: set[int] = set()
        """The groups that are written."""
        self._last = expression.groups
        self._open: set[int] = set()
        self._rests = 0

    def write(self, node: Node) -> RegexFragment:
        if isinstance(node, Text):
            text = "".join(char if char == "-" else _char(ord(char)) for char in node.text)
            return RegexFragment(text, len(node.text), len(node.text))
        if isinstance(node, OneOf):
            return RegexFragment(_set(node.chars), 1)
        if isinstance(node, AtAnchor):
            return RegexFragment(_PLACES[node.place])
        if isinstance(node, LineBreak):
            return RegexFragment(r"(?:\r\n|[\n-\r\x85\u2028\u2029])", 1)
        if isinstance(node, Cluster):
            return RegexFragment(r"\X", 1)
        if isinstance(node, BackReference):
            return RegexFragment(self._again(node))
        if isinstance(node, Sequence):
            parts = [self.write(item) for item in node.items]
            text, least = "".join(part.text for part in parts), sum(part.least for part in parts)
            return _with(text, least, *parts)
        if isinstance(node, Choice):
            parts = [self.write(item) for item in node.options]
            text = "|".join(part.text for part in parts)
            return _with(f"(?:{text})", min(part.least for part in parts), *parts)
        if isinstance(node, RegexGroup):
            return self._group(node)
        if isinstance(node, Atomic):
            part = self.write(node.item)
            return _with(f"(?>{part.text})", part.least, part)
        if isinstance(node, LookAround):
            return self._look(node)
        return self._repeat(node)

    def _group(self, node: RegexGroup) -> RegexFragment:
        if node.number is None:
            part = self.write(node.item)
            return _with(f"(?:{part.text})", part.least, part)
        self._open.add(node.number)
        part = self.write(node.item)
        self._open.remove(node.number)
        self.groups.add(node.number)
        return _with(f"(?P<{group_name(node.number)}>{part.text})", part.least, part)

    def _again(self, node: BackReference) -> str:
        if node.group in self._open:
            raise UntranslatableError("a group that refers to itself")
        if node.group > self._last:
            return _NEVER
        again = f"(?P={group_name(node.group)})"
        return f"(?i:{again})" if node.ignores_case else again

    def _look(self, node: LookAround) -> RegexFragment:
        if not node.ahead and node.window is None:
            return RegexFragment(_NEVER if node.wanted else "")
        part, sign = self.write(node.item), "=" if node.wanted else "!"
        if node.ahead:
            return _with(f"(?{sign}{part.text})", 0, part)
        assert node.window is not None
        self._rests += 1
        rest = f"r{self._rests}"
        # A match from an earlier place must end here: the rest of the name after the match equals the rest from here.
        ends_here = rf"(?={part.text}(?P={rest})\Z)"
        reach = f"{_ANY}{_counts(node.window.least, node.window.most)}?"
        text = rf"(?=(?P<{rest}>{_ANY}*))(?<{sign}{ends_here}{reach})"
        if node.window.begin:
            far = f"{_ANY}{{{node.window.begin}}}"
            text = f"(?<={far}){text}" if node.wanted else f"(?:(?<!{far})|{text})"
        return _with(text, 0, part)

    def _repeat(self, node: Repeat) -> RegexFragment:
        if node.most == 0:
            return RegexFragment("")
        part = self.write(node.item)
        if not part.text:
            return part
        least = part.least * node.least
        if isinstance(node.item, AtAnchor):
            return part if node.least else RegexFragment("")
        text = f"(?>{part.text})" if node.of_first_ways and not isinstance(node.item, Text | OneOf) else part.text
        if not isinstance(node.item, OneOf | RegexGroup | LineBreak):
            text = f"(?:{text})"
        text += _counts(min(node.least, LONGEST + 1), node.most)
        if node.how is QuantifierKind.LAZY:
            text += "?"
        elif node.how is QuantifierKind.POSSESSIVE:
            text = f"(?>{text})"
        more = max(0, min(node.least, LONGEST) - 1) * (part.size + part.copies)
        return RegexFragment(text, least, part.size + 1, part.copies + more)


def _with(text: str, least: int, *parts: RegexFragment) -> RegexFragment:
    return RegexFragment(text, least, sum(part.size for part in parts) + 1, sum(part.copies for part in parts))


def _counts(least: int, most: int) -> str:
    if most > LONGEST or most == UNLIMITED:
        return {0: "*", 1: "+"}.get(least, f"{{{least},}}")
    return f"{{{least},{most}}}"


def _set(chars: CharSet) -> str:
    if not chars.ranges:
        return _NEVER
    if chars == EVERY:
        return _ANY
    return f"[{''.join(map(_range, chars.ranges))}]"


def _range(ends: Range) -> str:
    low, high = ends
    return _char(low) if low == high else f"{_char(low)}-{_char(high)}"


def _char(code: int) -> str:
    char = chr(code)
    # An ordinary character itself: reading an escape takes `regex` ten times as long.
    return char if code > 127 or char.isalnum() or char == "_" else f"\\x{code:02x}"


MATCH_S = 1.0
"""The seconds for which a name may keep a processor busy.

A sane expression needs a thousandth of it for the longest name.
"""


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """The place of a match, and the text of each group; None for a group outside the match."""

    begin: int
    end: int
    groups: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class JavaPattern:
    """An expression of `java.util.regex`, ready to match; `names` has the numbers of groups with names.

    Matching raises PatternError once a name has taken `MATCH_S`: repeats inside of repeats may take years.
    """

    text: str
    groups: int = field(compare=False)
    names: dict[str, int] = field(compare=False)
    _compiled: Any = field(compare=False, repr=False)

    def matches(self, name: str) -> bool:
        """Whether the whole of `name` matches (`Matcher.matches`)."""
        try:
            return self._compiled.fullmatch(name, timeout=MATCH_S) is not None
        except TimeoutError:
            raise self._slow(name) from None

    def find(self, name: str) -> PatternMatch | None:
        """The first match inside of `name`, at any place (`Matcher.find`)."""
        try:
            found = self._compiled.search(name, timeout=MATCH_S)
        except TimeoutError:
            raise self._slow(name) from None
        if found is None:
            return None
        groups = (found[group_name(number)] for number in range(1, self.groups + 1))
        return PatternMatch(found.start(), found.end(), (found[0], *groups))

    def __reduce__(self) -> tuple[object, ...]:
        return java_pattern, (self.text,)

    def _slow(self, name: str) -> PatternError:
        return PatternError(
            f"more than {MATCH_S:g} s for the name {name!r}, as the body of a repeat can match in many ways; write "
            "the expression so that it matches in a single way",
            None,
            self.text,
            message_id="TW-FILE-05",
        )


@lru_cache(maxsize=1024)
def java_pattern(text: str) -> JavaPattern:
    """The expression `text`.

    Raises PatternError for an expression that Java refuses, or that takes too long for every name.
    """
    expression = parsed(text)
    try:
        compiled = regex.compile(translated(expression), regex.VERSION0)
    except UntranslatableError as error:
        raise PatternError(str(error), None, text) from None
    except RecursionError:
        raise PatternError("parentheses nested too deep", None, text) from None
    return JavaPattern(text, expression.groups, expression.names, compiled)
