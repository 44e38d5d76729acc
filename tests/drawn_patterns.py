"""Java's regular expressions as chance makes them, with names that they may match."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

LETTERS = "abcAB01-_."
ODD = "éÉßİſK\u212aк\u0301 \t\n\r\x85\u2028,&[]^~+"
NAMES = [
    "",
    "a",
    "b",
    "ab",
    "aB",
    "A.b",
    "a-b_c",
    "aab",
    "abab",
    "0",
    "a0",
    "é",
    "É",
    "ac\n",
    "a b",
    "\r\n",
    "a\n",
    "--",
]
PROPERTIES = re.findall(
    r"\S+",
    """
    Lower Upper ASCII Alpha Digit Alnum Punct Graph Print Blank Cntrl XDigit Space L Lu Ll Lt N Nd P Pd Z M Mn S C Cn LC
    LD L1 all IsL IsLu IsAlphabetic IsLowercase IsUppercase IsWhite_Space IsPunctuation IsDigit IsAlnum IsHexDigit
    IsLatin IsGreek IsCyrillic InGreek InBasicLatin InCyrillic sc=Latn script=Greek blk=BasicLatin gc=Lu IsAssigned
    general_category=Nd javaLowerCase javaUpperCase javaLetterOrDigit javaWhitespace javaMirrored IsIdeographic
    javaJavaIdentifierPart javaUnicodeIdentifierStart javaIdentifierIgnorable javaSpaceChar javaISOControl IsWord
    """,
)
SCARCE = (r"\pL", r"\PL", *(rf"\{sign}{{{name}}}" for name in PROPERTIES for sign in "pP"))
"""Large sets, which take long to compile."""
ESCAPES = {
    r"\d": "0",
    r"\w": "a",
    r"\s": " ",
    r"\h": " ",
    r"\v": "\n",
    r"\R": "\r\n",
    r"\D": "a",
    r"\W": "-",
    r"\S": "a",
    r"\H": "a",
    r"\V": "a",
    r"\X": "a",
    r"\t": "\t",
    r"\e": "\x1b",
    r"\x61": "a",
    r"\u0062": "b",
    r"\x{63}": "c",
    r"\0101": "A",
    r"\cI": "\t",
    r"\N{LATIN SMALL LETTER A}": "a",
    r"\-": "-",
    r"\_": "_",
}
IN_CLASSES = (r"\w", r"\d", r"\s", r"\W", r"\h", r"\v", r"\D", r"\.", r"\-", r"\]", r"\x41", r"\t", r"\Q-]\E", r"\R")
POSITIONS = ("^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G")
SWITCHES = ("(?i)", "(?m)", "(?s)", "(?-i)", "(?u)", "(?iu)", "(?d)", "(?U)", "(?-s)")
COUNTS = {"?": (0, 1), "*": (0, 3), "+": (1, 3), "{2}": (2, 2), "{0,2}": (0, 2), "{1,}": (1, 3), "{0}": (0, 0)} | {
    "{1,3}": (1, 3)
}
WRONG = (
    r"\y",
    r"\p{Nonsense}",
    "(?<1>a)",
    "(?z)",
    "[b-a]",
    "{a}",
    "a{2,1}",
    "*a",
    "a**",
    "(?<=(?:a|b)*)",
    r"\k<none>",
    "(",
    ")",
    "[",
    r"\x4",
    "(?P<n>a)",
    "(?#a)",
    r"[a-\d]",
    "[&&]",
    r"\c",
    r"\u00g0",
    r"\p{",
    r"\p{}",
    r"\N{NO SUCH NAME}",
    "a{99999999999}",
    "\\",
)


@dataclass(frozen=True, slots=True)
class Drawn:
    """An expression, and names: that which it was made to match, some near to it, some of chance.

    `finds` is whether what it finds inside of a name, with the groups, is to be compared as well.
    """

    pattern: str
    names: list[str]
    finds: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of an expression, a text that it may match, and whether it may match none."""

    pattern: str
    text: str
    empty: bool


@dataclass(slots=True)
class _Maker:
    """Makes parts. Left out is what no user needs and `regex` does in another way than Java:

    - A group that refers to itself.
    - What a group matched inside of a look-around, or of an atomic or possessive part, on a way that failed later, is
      kept by Java.
    - A repeat ends in Java with a turn that matches nothing, even if it was not often enough. That shows in groups, in
      what is found inside of a name, and where a position decides whether a turn can match nothing.
    """

    chance: random.Random
    groups: int = 0
    names: dict[int, str] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    """Groups that can be referred to."""
    finds: bool = True
    positions: int = 0

    def choice(self, depth: int) -> _Part:
        options = [self.sequence(depth) for _ in range(self.chance.choice((1, 1, 1, 1, 2, 3)))]
        pattern, empty = "|".join(option.pattern for option in options), any(option.empty for option in options)
        return _Part(pattern, self.chance.choice(options).text, empty)

    def sequence(self, depth: int) -> _Part:
        parts = [self.repeated(depth) for _ in range(self.chance.choice((0, 1, 1, 2, 2, 3)))]
        pattern, text = "".join(part.pattern for part in parts), "".join(part.text for part in parts)
        return _Part(pattern, text, all(part.empty for part in parts))

    def repeated(self, depth: int) -> _Part:
        begun, positions = self.groups, self.positions
        part = self.part(depth)
        if self.chance.random() < 0.55:
            return part
        count = self.chance.choice(list(COUNTS))
        if count == "{2}" and self.positions > positions:
            count = "{0,2}"
        least, most = COUNTS[count]
        how = self.chance.choice(("", "", "", "?", "+"))
        if how == "+" or part.empty or not most:
            self.forget(begun)
        return _Part(part.pattern + count + how, part.text * self.chance.randint(least, most), part.empty or not least)

    def forget(self, begun: int) -> None:
        self.finds &= self.groups == begun
        self.known = {group for group in self.known if group <= begun}

    def part(self, depth: int) -> _Part:
        drawn = self.chance.random()
        if depth <= 0 or drawn < 0.4:
            return self.one()
        if drawn < 0.55:
            return _Part(self.char_class(2), self.chance.choice(LETTERS), empty=False)
        if drawn < 0.75:
            return self.group(depth - 1)
        if drawn < 0.87:
            return self.look(depth - 1)
        if drawn < 0.91:
            return _Part(self.again(), "", empty=True)
        self.positions += 1
        return _Part(self.chance.choice(POSITIONS + SWITCHES), "", empty=True)

    def one(self) -> _Part:
        drawn = self.chance.random()
        if drawn < 0.7:
            char = self.chance.choice(LETTERS)
            # A dot as most write it.
            return _Part(rf"\{char}" if char == "." and drawn < 0.5 else char, char, empty=False)
        if drawn < 0.75:
            char = self.chance.choice(ODD)
            return _Part(rf"\{char}" if char in "[]^+ " else char, char, empty=False)
        if drawn < 0.9:
            escape = self.chance.choice(list(ESCAPES))
            return _Part(escape, ESCAPES[escape], empty=False)
        if drawn < 0.98:
            text = "".join(self.chance.choice(LETTERS + "*+[(\\") for _ in range(self.chance.randint(0, 3)))
            return _Part(rf"\Q{text}\E", text, empty=not text)
        return _Part(self.chance.choice(SCARCE), self.chance.choice("aB0"), empty=False)

    def char_class(self, depth: int) -> str:
        return f"[{self.chance.choice(('', '', '^'))}{self.content(depth)}]"

    def content(self, depth: int) -> str:
        parts = []
        for _ in range(self.chance.randint(1, 4)):
            drawn = self.chance.random()
            if drawn < 0.35:
                parts.append(self.chance.choice(LETTERS + "&^~,+ éÉk"))
            elif drawn < 0.55:
                parts.append("-".join(sorted(self.chance.choice("aczAZ09é") for _ in range(2))))
            elif drawn < 0.72:
                parts.append(self.chance.choice(IN_CLASSES))
            elif drawn < 0.73:
                parts.append(self.chance.choice(SCARCE))
            elif drawn < 0.8:
                parts.append(self.chance.choice(("-", "&", "&&", "^")))
            elif depth and drawn < 0.9:
                parts.append(self.char_class(depth - 1))
            elif depth:
                parts.append("&&" + self.chance.choice((self.char_class, self.content))(depth - 1))
        return "".join(parts) or "a"

    def group(self, depth: int) -> _Part:
        kind = self.chance.choice(("(", "(", "(", "(?:", "(?:", "(?>", "(?i:", "(?iu:", "(?s-i:", "(?<", "(?x:"))
        begun = self.groups
        if kind in {"(", "(?<"}:
            self.groups += 1
        number = self.groups
        if kind == "(?<":
            self.names[number] = f"n{number}"
            kind = f"(?<n{number}>"
        part = self.choice(depth)
        # Blanks and comments do not count there.
        content = part.pattern.replace("a", " a # b\n") if kind == "(?x:" else part.pattern
        if kind == "(?>":
            self.forget(begun)
        elif number > begun:
            self.known.add(number)
        return _Part(f"{kind}{content})", part.text, part.empty)

    def look(self, depth: int) -> _Part:
        self.positions += 1
        begun = self.groups
        part = self.choice(depth)
        self.forget(begun)
        return _Part(f"{self.chance.choice(('(?=', '(?!', '(?<=', '(?<!'))}{part.pattern})", "", empty=True)

    def again(self) -> str:
        if not self.known:
            # There is none of that number, and it matches nothing.
            return r"\9"
        group = self.chance.choice(sorted(self.known))
        return rf"\k<{self.names[group]}>" if group in self.names else rf"\{group}"


def drawn_pattern(chance: random.Random) -> Drawn:
    """An expression of any kind; one in twelve is damaged, and mostly none after that."""
    maker = _Maker(chance)
    made = maker.choice(chance.choice((1, 1, 1, 2, 2, 3)))
    pattern, finds = made.pattern, maker.finds
    if chance.random() < 0.08:
        at, finds = chance.randint(0, len(pattern)), False
        pattern = pattern[:at] + chance.choice((pattern[at + 1 :], chance.choice(WRONG) + pattern[at:]))
    near = made.text[:-1], made.text + chance.choice(LETTERS), made.text.swapcase(), made.text * 2
    others = ["".join(chance.choice(LETTERS) for _ in range(chance.randint(1, 6))) for _ in range(2)]
    odd = "".join(chance.choice(LETTERS + ODD) for _ in range(chance.randint(1, 5)))
    names = dict.fromkeys(name[:40] for name in (made.text, *near, *others, odd, *chance.sample(NAMES, 3)))
    return Drawn(pattern, list(names), finds)
