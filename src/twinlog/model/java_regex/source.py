r"""The text of an expression, read character by character, after `\Q...\E` and comments."""

from __future__ import annotations

from enum import Flag, auto

from twinlog.errors import PatternError


class Flags(Flag):
    """The flags that `(?...)` switches."""

    NONE = 0
    UNIX_LINES = auto()
    IGNORE_CASE = auto()
    COMMENTS = auto()
    MULTILINE = auto()
    DOTALL = auto()
    UNICODE_CASE = auto()
    UNICODE_CLASSES = auto()


_BLANKS = frozenset(" \t\n\v\f\r")
_LINE_ENDS = frozenset("\n\r\x85\u2028\u2029")


class Source:
    """A position in an expression, and the flags at the position.

    Past the end every character is empty.

    Under the flag `x`, `peek`, `after` and `read` skip blanks and comments, `raw` reads them: Java knows both, too.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.chars, self._places = _unquoted(text)
        self.at = 0
        self.flags = Flags.NONE

    def has(self, flag: Flags) -> bool:
        """Whether a flag is set at the position."""
        return flag in self.flags

    def peek(self) -> str:
        """The next character; the position stays."""
        if Flags.COMMENTS in self.flags:
            self._skip()
        return self.chars[self.at : self.at + 1]

    def after(self) -> str:
        """The character after the next character; the position moves to it."""
        self.at += 1
        return self.peek()

    def read(self) -> str:
        """The next character; the position moves behind it."""
        char = self.peek()
        self.at += 1
        return char

    def raw(self, ahead: int = 0) -> str:
        """The character so far ahead, blanks and comments included."""
        at = self.at + ahead
        return self.chars[at : at + 1]

    def error(self, why: str, at: int | None = None) -> PatternError:
        """The error for the part that begins at an index of `chars`, or at the position."""
        return PatternError(why, self.place(self.at if at is None else at), self.text)

    def place(self, at: int) -> int:
        """The place in the user's text from which a character of `chars` comes."""
        return self._places[min(at, len(self.chars))] if self._places else min(at, len(self.text))

    def _skip(self) -> None:
        ends = "\n" if Flags.UNIX_LINES in self.flags else _LINE_ENDS
        while (char := self.raw()) and (char in _BLANKS or char == "#"):
            self.at += 1
            if char == "#":
                while (char := self.raw()) and char not in ends:
                    self.at += 1


def _unquoted(text: str) -> tuple[str, list[int] | None]:
    r"""The text without `\Q` and `\E`, and the place of each character in the original text.

    A backslash precedes each quoted sign. Letters stay as they are, in the middle of an escape or of flags, too.
    """
    if r"\Q" not in text:
        return text, None
    chars: list[str] = []
    places: list[int] = []
    at, quotes, begins = 0, False, False
    while at < len(text):
        char, pair = text[at], text[at : at + 2]
        written, taken = char, 1
        if quotes and pair == r"\E":
            quotes, written, taken = False, "", 2
        elif not quotes and char == "\\":
            written, taken = pair, len(pair)
            if pair == r"\Q":
                quotes, begins, written = True, True, ""
        elif quotes and begins and char.isascii() and char.isdigit():
            # The digit might count as the end of an escape before it.
            written = rf"\x3{char}"
        elif quotes and char.isascii() and not char.isalnum():
            written = f"\\{char}"
        if written:
            begins = False
        chars.append(written)
        places += [at] * len(written) if len(written) != taken else range(at, at + taken)
        at += taken
    return "".join(chars), [*places, len(text)]
