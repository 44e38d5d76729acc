"""Java regular expressions, as MirrorMaker 2 files contain them, in Python's form.

A filter is a list of expressions joined by `|` that must match a whole name. The two dialects agree on most of what
such files use; this module rewrites what differs and refuses, with the reason, what has no equal in Python. Behaviour
followed: `java.util.regex.Pattern` (Java 17) without flags, so `\\w`, `\\d`, `\\s` and `(?i)` mean ASCII.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "ASCII": r"\x00-\x7f",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9a-fA-F",
    "Space": r" \t\n\x0b\f\r",
}
"""Java's `\\p{...}` classes of US-ASCII; Unicode classes are refused, Python's `re` has none."""

_QUANTIFIER = re.compile(r"\{\d+(,\d*)?\}")
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_PARTS = re.compile(r"\\Q.*?(?:\\E|$)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""An escape, a character class, or one character."""

_META = frozenset("^$*+?()[]{}|\\")
_SAME_ESCAPES = frozenset("dDsSwWbBAtnrfa")


class PatternError(ValueError):
    """The expression is wrong, or uses a Java feature that Python cannot express; the text names it."""


@lru_cache(maxsize=1024)
def compile_list(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    """One compiled expression for the whole list, for `fullmatch`; None for an empty list, which matches nothing.

    Raises PatternError.
    """
    if not patterns:
        return None
    translated = translate("|".join(patterns))
    try:
        # ASCII: Java's classes and its (?i) know only US-ASCII unless asked otherwise.
        return re.compile(translated, re.ASCII)
    except (re.error, OverflowError) as error:
        raise PatternError(f"not a regular expression: {error}{_culprit(patterns)}") from None


@lru_cache(maxsize=1024)
def spelled_out(patterns: tuple[str, ...]) -> frozenset[str]:
    """The names that a list spells out: its alternatives outside groups that have no metacharacter but plain dots.

    A plain dot matches any character, but who writes `orders.v1` means that name.
    """
    found: set[str] = set()
    name: list[str] | None = []
    text, depth = "|".join(patterns), 0
    for part in _PARTS.findall(text):
        depth += (part == "(") - (part == ")")
        if part == "|" and not depth:
            found.add("".join(name or ()))
            name = []
        elif name is not None:
            literal = _literal(part)
            name = None if literal is None else [*name, literal]
    return frozenset({*found, "".join(name or ())} - {""})


def _literal(part: str) -> str | None:
    """What a part of an expression stands for when that is one text only, None when it is not."""
    if part.startswith(r"\Q"):
        return part[2:].removesuffix(r"\E")
    if len(part) == 2 and not part[1].isalnum():
        return part[1]
    return None if len(part) > 1 or part in _META else part


def share_no_name(patterns: tuple[str, ...], others: tuple[str, ...]) -> bool:
    """Whether no name matches both lists, as far as it can be seen: of names, and of beginnings of names with `.*`."""
    here, there = _beginnings(patterns), _beginnings(others)
    return here is not None and there is not None and all(_are_apart(one, two) for one in here for two in there)


def _beginnings(patterns: tuple[str, ...]) -> list[tuple[str, bool]] | None:
    """The alternatives of a list, each with whether more may follow; None where one is anything else."""
    found = []
    for alternative in "|".join(patterns).split("|"):
        begins = alternative.removesuffix(".*")
        parts = [_literal(part) for part in _PARTS.findall(begins)]
        if r"\Q" in alternative or None in parts:
            return None
        found.append(("".join(part or "" for part in parts), begins != alternative))
    return found


def _are_apart(one: tuple[str, bool], other: tuple[str, bool]) -> bool:
    (here, more_here), (there, more_there) = one, other
    # A dot matches any character.
    if any(a != b and "." not in (a, b) for a, b in zip(here, there, strict=False)):
        return True
    return (len(here) < len(there) and not more_here) or (len(there) < len(here) and not more_there)


def translate(expression: str) -> str:
    """`expression` in Python's dialect. Raises PatternError."""
    return _Translation(expression).run()


def _culprit(patterns: Iterable[str]) -> str:
    for pattern in patterns:
        try:
            re.compile(translate(pattern), re.ASCII)
        except (re.error, OverflowError, PatternError):
            hint = "; for every name write .*" if pattern == "*" else ""
            return f" in {pattern!r}{hint}"
    return ""


class _Translation:
    """One pass over the text. `groups` holds, per open parenthesis, the flag scopes opened inside it.

    Java's `(?i)` lasts until its group ends, past any `|`. Python allows that only as `(?i:...)`, so such a scope is
    closed and opened again around every `|` and closed before its group's end.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.out: list[str] = []
        self.groups: list[list[str]] = [[]]

    def run(self) -> str:
        while self.at < len(self.text):
            self._step(self.text[self.at])
        if len(self.groups) > 1:
            raise PatternError(f"a parenthesis in {self.text!r} is never closed")
        return "".join(self.out) + ")" * len(self.groups[0])

    def _step(self, char: str) -> None:
        if char == "\\":
            self._escape()
        elif char == "[":
            self._char_class()
        elif char == "(":
            self._open()
        elif char == ")":
            if len(self.groups) == 1:
                raise PatternError(f"a parenthesis in {self.text!r} closes nothing")
            self._emit(")" * len(self.groups.pop()) + ")", 1)
        elif char == "|":
            scopes = self.groups[-1]
            self._emit(")" * len(scopes) + "|" + "".join(scopes), 1)
        elif char == "{":
            quantifier = _QUANTIFIER.match(self.text, self.at)
            if quantifier is None:
                raise PatternError(
                    f"'{{' in {self.text!r} does not begin a repeat count such as {{3}}; "
                    "a comma inside it splits the entry of a list in two"
                )
            self._emit(quantifier[0], len(quantifier[0]))
        else:
            self._emit(char, 1)

    def _emit(self, translated: str, consumed: int) -> None:
        self.out.append(translated)
        self.at += consumed

    def _open(self) -> None:
        rest = self.text[self.at :]
        if rest.startswith("(?<") and not rest.startswith(("(?<=", "(?<!")):
            self.groups.append([])
            self._emit("(?P<", 3)
            return
        flags = _FLAGS.match(self.text, self.at)
        if flags is None:
            if rest.startswith(("(?P", "(?#", "(?(")):
                raise PatternError(f"the group {rest[:4]!r} in {self.text!r} is unknown to Java")
            self.groups.append([])
            self._emit("(", 1)
            return
        on, off, end = flags[1], flags[2] or "", flags[3]
        unknown = sorted(set(on + off) - set("ims"))
        if unknown:
            raise PatternError(f"the flag {unknown[0]!r} of {flags[0]!r} is not supported; use only i, m and s")
        scope = f"(?{on}{'-' + off if off else ''}:"
        if end == ")":
            self.groups[-1].append(scope)
        else:
            self.groups.append([])
        self._emit(scope, len(flags[0]))

    def _escape(self) -> None:
        if self.at + 1 >= len(self.text):
            raise PatternError(f"{self.text!r} ends in a lone backslash")
        if self.text[self.at + 1] == "Q":
            self._emit(*self._quoted())
        elif self.text.startswith(r"\k<", self.at):
            name = re.compile(r"\\k<(\w+)>").match(self.text, self.at)
            if name is None:
                raise PatternError(rf"\k<name> in {self.text!r} is not closed")
            self._emit(f"(?P={name[1]})", len(name[0]))
        elif self.text[self.at + 1] in "zZ":
            self._emit(r"\Z" if self.text[self.at + 1] == "z" else r"(?=\n?\Z)", 2)
        elif self.text[self.at + 1] in "123456789":
            self._emit(self.text[self.at : self.at + 2], 2)
        else:
            translated, consumed = self._shared_escape()
            self._emit(translated, consumed)

    def _quoted(self) -> tuple[str, int]:
        end = self.text.find(r"\E", self.at + 2)
        quoted = self.text[self.at + 2 :] if end < 0 else self.text[self.at + 2 : end]
        return re.escape(quoted), (len(self.text) if end < 0 else end + 2) - self.at

    def _shared_escape(self, *, in_class: bool = False) -> tuple[str, int]:
        r"""An escape that means the same inside and outside of `[...]`."""
        char = self.text[self.at + 1] if self.at + 1 < len(self.text) else ""
        if char in "pP":
            named = re.compile(r"\\([pP])\{(\w+)\}").match(self.text, self.at)
            ranges = _POSIX.get(named[2]) if named else None
            if named is None or ranges is None:
                shown = named[0] if named else self.text[self.at : self.at + 3]
                raise PatternError(rf"the class {shown} is not supported; write the characters out, like [a-zA-Z]")
            if in_class and char == "P":
                raise PatternError(f"{named[0]} inside [...] is not supported; write the characters out")
            if in_class:
                return ranges, len(named[0])
            return f"[{'^' if char == 'P' else ''}{ranges}]", len(named[0])
        coded = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]+)\}|0([0-3]?[0-7]{1,2}))").match(
            self.text, self.at
        )
        if coded is not None:
            hexadecimal = coded[1] or coded[2] or coded[3]
            code = int(hexadecimal, 16) if hexadecimal else int(coded[4], 8)
            if code > 0x10FFFF:
                raise PatternError(f"{coded[0]} is beyond the last character")
            return re.escape(chr(code)), len(coded[0])
        if char == "e":
            return r"\x1b", 2
        if char in _SAME_ESCAPES and not (in_class and char in "bBA"):
            return f"\\{char}", 2
        if char.isascii() and char.isalnum():
            raise PatternError(rf"the escape \{char} is not supported")
        return re.escape(char), 2

    def _char_class(self) -> None:
        self._emit("[", 1)
        if self.text.startswith("^", self.at):
            self._emit("^", 1)
        first = True
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "]" and not first:
                self._emit("]", 1)
                return
            if char == "[":
                raise PatternError(
                    f"a class inside a class in {self.text!r} is not supported; write one list of ranges"
                )
            if self.text.startswith("&&", self.at):
                raise PatternError(
                    f"the intersection && in {self.text!r} is not supported; write the ranges that remain"
                )
            if char == "\\" and self.text.startswith(r"\Q", self.at):
                self._emit(*self._quoted())
            elif char == "\\":
                self._emit(*self._shared_escape(in_class=True))
            elif char == "-":
                # A hyphen is a range only between two characters; anywhere else Python wants it escaped.
                between = not first and self.text[self.at + 1 : self.at + 2] not in {"]", ""}
                self._emit("-" if between else r"\-", 1)
            else:
                self._emit(char if char.isalnum() or char in "_ " else re.escape(char), 1)
            first = False
        raise PatternError(f"a [ in {self.text!r} is never closed")
