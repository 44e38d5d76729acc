"""Counts vague words in the English of the package and of the documents: `python -m scripts.check_words`.

The check reads docstrings, comments and strings of at least two words in src/twinlog, and the prose of docs/*.md. Code
blocks, text in backticks and generated pages are left out. `TARGETS` has the target of each word in uses per 1,000
words. scripts/words.json has the rates of packages above a target; each of these rates is the budget of its package,
and a package fails 2 % above its budget. A budget may only fall: `--write` stores lower rates. `--list PACKAGE` prints
each sentence with a counted word.

The pages for users (README.md, docs/*.md, docs/guides/*.md) have a budget of their number and of words in all, commands
included and generated pages and parts left out: `--pages` prints the words of each page. The check ends with status 1
if a package or the pages are above a budget.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGETS = ROOT / "scripts" / "words.json"

TARGETS = {
    "what": (1.5, "what"),
    "where": (1.5, "where"),
    "one": (0.5, "ones?"),
    "not": (8.0, r"not|no|never|nothing|nobody|none|neither|nor|without|cannot|\w+n't"),
    "others": (0.3, "others|another's"),
    "such": (0.3, "such"),
    "somebody": (0.3, "somebody|whoever|anybody"),
    "go on": (0.3, r"go(?:es|ing)?\s+on"),
    "anew": (0.3, "anew"),
    "stand": (0.3, "stands?"),
    "is to be": (0.3, r"(?:is|are)\s+to\s+be"),
}
"""The most uses of each word per 1,000 words, and its forms."""

USER_WORDS = 30_000
"""The most words of all pages for users; words are divided by blanks, and words of code count, too."""

USER_PAGES = 36
"""The most pages for users, README.md included."""

GENERATED = {"commands.md", "configuration.md", "ignored-keys.md", "strimzi.md"}
TOLERANCE = 1.02

_NAMES = list(TARGETS)
_FORMS = "|".join(f"({forms})" for _, forms in TARGETS.values())
_COUNTED = re.compile(rf"\b(?:{_FORMS})\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]+(?:'[a-z]+)?")
_TWO_WORDS = re.compile(r"[A-Za-z']{2,}[,;:]? [A-Za-z']{2,}")
_CODE = re.compile(r"`[^`]*`|\]\([^)]*\)")
_HOLE = re.compile(r"\{[^{}]*\}")
_BORDER = re.compile(r"[.!?]\s+|\s\|\s")
_PRAGMA = re.compile(r"#\s*(?:noqa|type:|mypy:|!)")
_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
    | (?P<prefix>\b[rbfu]{1,2}|)
      (?P<string>"{3}(?:[^"\\]+|\\.|"(?!""))*"{3} | '{3}(?:[^'\\]+|\\.|'(?!''))*'{3}
      | "(?:[^"\\\n]+|\\.)*" | '(?:[^'\\\n]+|\\.)*')""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_GENERATED_PAGE = re.compile(r"^<!-- Generated from ", re.MULTILINE)
_GENERATED_PART = re.compile(
    r"^<!-- (\w+)\b(?!:end).*? -->$.*?^<!-- (?:end of \1|\1:end) -->$", re.DOTALL | re.MULTILINE
)
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s|#|\|")


class Text:
    """A string, a comment or a paragraph: English with the line of each of its words."""

    def __init__(self, file: str, lines: list[tuple[int, str]]) -> None:
        self.file = file
        self._numbers = [number for number, _ in lines]
        self._starts = list(accumulate((len(line) + 1 for _, line in lines[:-1]), initial=0))
        self._text = " ".join(line for _, line in lines)
        self._prose = _CODE.sub(lambda code: "`" * len(code[0]), self._text)

    def words(self) -> int:
        return len(_WORD.findall(self._prose))

    def uses(self) -> Iterator[Use]:
        for found in _COUNTED.finditer(self._prose):
            # Python's None and words of SQL are code.
            if found[0] != "None" and not (found[0].isupper() and len(found[0]) > 1):
                yield Use(_NAMES[(found.lastindex or 1) - 1], self, found.start())

    def line(self, at: int) -> int:
        return self._numbers[bisect_right(self._starts, at) - 1]

    def sentence(self, at: int) -> str:
        ends = [border.end() for border in _BORDER.finditer(self._prose)]
        begin = max((end for end in ends if end <= at), default=0)
        end = min((end for end in ends if end > at), default=len(self._text))
        return " ".join(self._text[begin:end].strip(" |").split())


@dataclass(frozen=True, slots=True)
class Use:
    """A counted word at a position of a text."""

    word: str
    text: Text
    at: int

    @property
    def file(self) -> str:
        return self.text.file

    @property
    def line(self) -> int:
        return self.text.line(self.at)


@dataclass(frozen=True, slots=True)
class Package:
    """The English of one folder of src/twinlog, or of the documents."""

    words: int
    uses: tuple[Use, ...]

    def rate(self, word: str) -> float:
        return self.count(word) * 1000 / max(1, self.words)

    def count(self, word: str) -> int:
        return sum(use.word == word for use in self.uses)


def packages(root: Path) -> dict[str, Package]:
    """The English below `root`; modules beside the packages of src/twinlog count as the package `twinlog`."""
    source = root / "src" / "twinlog"
    texts: dict[str, list[Text]] = defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        texts[parts[0] if len(parts) > 1 else "twinlog"].extend(texts_of_module(path, str(path.relative_to(root))))
    for path in sorted((root / "docs").glob("*.md")):
        if path.name not in GENERATED:
            texts["docs"].extend(texts_of_page(path, str(path.relative_to(root))))
    return {
        name: Package(sum(text.words() for text in found), tuple(use for text in found for use in text.uses()))
        for name, found in sorted(texts.items())
    }


def texts_of_module(path: Path, name: str) -> Iterator[Text]:
    """The comments and strings of a module; neighbours are one text, be they strings or lines of a comment."""
    source = path.read_text(encoding="utf-8")
    block: list[tuple[int, str]] = []
    number, end, kind = 1, 0, ""
    for token in _TOKEN.finditer(source):
        gap = source[end : token.start()]
        number += gap.count("\n")
        new_kind = "comment" if token["comment"] else "string"
        if block and not (kind == new_kind and not gap.strip() and gap.count("\n") < 2):
            yield from _text(name, block, kind)
            block = []
        if token["comment"]:
            if not _PRAGMA.match(token["comment"]):
                block.append((number, token["comment"].lstrip("#: ")))
        elif not gap.rstrip().endswith("compile(") and "b" not in token["prefix"].lower():
            string = _HOLE.sub("{}", token["string"]) if "f" in token["prefix"].lower() else token["string"]
            string = re.sub(r"\\[nrt]", " ", string).strip("\"'")
            block.extend((number + at, line.strip()) for at, line in enumerate(string.split("\n")))
        number += token[0].count("\n")
        end, kind = token.end(), new_kind
    yield from _text(name, block, kind)


def _text(name: str, lines: list[tuple[int, str]], kind: str) -> Iterator[Text]:
    if kind == "comment" or _TWO_WORDS.search(" ".join(line for _, line in lines)):
        yield Text(name, lines)


def texts_of_page(path: Path, name: str) -> Iterator[Text]:
    """The paragraphs, list items, headings and table rows of a document."""
    block: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        fence = line.lstrip().startswith("```")
        skipped = fence or fenced or not line.strip() or line.startswith("<!--")
        fenced ^= fence
        if block and (skipped or _ITEM.match(line)):
            yield Text(name, block)
            block = []
        if not skipped:
            block.append((number, line.strip()))
    if block:
        yield Text(name, block)


Rates = dict[str, dict[str, float]]
"""Stored rates: of packages, of words."""


def problems(found: dict[str, Package], stored: Rates) -> Iterator[str]:
    """A paragraph for each word of a package above its budget; a single use is within each budget."""
    for name, package in found.items():
        for word, (target, _) in TARGETS.items():
            budget = max(target, stored.get(name, {}).get(word, target))
            allowed = max(1, int(budget * TOLERANCE * package.words / 1000))
            surplus = package.count(word) - allowed
            if surplus > 0:
                yield (
                    f"{name}: `{word}` {package.rate(word):.2f} times in 1,000 words, and the budget is {budget:.2f}: "
                    f"{package.count(word)} uses, {surplus} too many\n{_worst(package, word)}\n"
                    f"  Way out: rewrite {surplus} of the sentences; `python -m scripts.check_words --list {name}` "
                    "prints all of them."
                )


def _worst(package: Package, word: str) -> str:
    """The lines of the three files with the most uses."""
    lines: dict[str, list[int]] = defaultdict(list)
    for use in package.uses:
        if use.word == word:
            lines[use.file].append(use.line)
    worst = sorted(lines.items(), key=lambda entry: -len(entry[1]))[:3]
    return "\n".join(f"  {file}: line {', '.join(map(str, dict.fromkeys(numbers)))}" for file, numbers in worst)


def lowered(found: dict[str, Package], stored: Rates | None) -> Rates:
    """The rates to store: the lower ones of present and stored rates; without a file, the present rates."""
    rates: Rates = {}
    for name, package in found.items():
        for word, (target, _) in TARGETS.items():
            rate = round(package.rate(word), 2)
            if stored is not None:
                rate = min(rate, stored.get(name, {}).get(word, target))
            if rate > target:
                rates.setdefault(name, {})[word] = rate
    return rates


def sentences(package: Package) -> Iterator[str]:
    """A line for each sentence with a counted word, with its place."""
    words: dict[tuple[str, str], list[Use]] = defaultdict(list)
    for use in package.uses:
        words[use.file, use.text.sentence(use.at)].append(use)
    for (file, sentence), uses in words.items():
        yield f"{file}:{uses[0].line}: {', '.join(dict.fromkeys(use.word for use in uses))}: {sentence}"


def user_pages(root: Path) -> dict[str, int]:
    """The number of words of each page for users, without its generated parts; generated pages are left out."""
    pages = {}
    for pattern in ("README.md", "docs/*.md", "docs/guides/*.md"):
        for path in sorted(root.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            if not _GENERATED_PAGE.search(text):
                pages[str(path.relative_to(root))] = len(_GENERATED_PART.sub("", text).split())
    return pages


def surplus(pages: dict[str, int], most: int, most_pages: int) -> Iterator[str]:
    """A line if there are more than `most_pages` pages, and a paragraph if they have more words than `most`."""
    words = sum(pages.values())
    if len(pages) > most_pages:
        shortest = sorted(pages, key=lambda name: pages[name])[:3]
        yield f"{len(pages)} pages for users, and the budget is {most_pages}. Join short pages: {', '.join(shortest)}"
    if words > most:
        longest = sorted(pages.items(), key=lambda entry: -entry[1])[:3]
        yield (
            f"The {len(pages)} pages for users have {words:,} words, and the budget is {most:,}: {words - most:,} too "
            f"many\n  longest: {', '.join(f'{name} {count:,}' for name, count in longest)}\n"
            "  Way out: cut repeated sentences; `python -m scripts.check_words --pages` prints the words of each page."
        )


def main(arguments: list[str], root: Path = ROOT, budgets: Path = BUDGETS) -> int:
    parser = argparse.ArgumentParser(prog="python -m scripts.check_words", description="Counts vague words.")
    parser.add_argument("--list", metavar="PACKAGE", help="print each sentence of PACKAGE with a counted word")
    parser.add_argument("--write", action="store_true", help="store the rates that have fallen")
    parser.add_argument("--pages", action="store_true", help="print the number of words of each page for users")
    asked = parser.parse_args(arguments)
    pages = user_pages(root)
    if asked.pages:
        print("\n".join(f"{words:6,} {name}" for name, words in {**pages, "all": sum(pages.values())}.items()))
        return 0
    found = packages(root)
    if asked.list:
        if asked.list not in found:
            print(f"{asked.list} is no package; the packages: {', '.join(found)}")
            return 1
        print("\n".join(sentences(found[asked.list])))
        return 0
    stored: Rates | None = json.loads(budgets.read_text(encoding="utf-8")) if budgets.is_file() else None
    if asked.write:
        rates = lowered(found, stored)
        budgets.write_text(json.dumps(rates, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        stored = rates
    wrong = [*problems(found, stored or {}), *surplus(pages, USER_WORDS, USER_PAGES)]
    above = sum(package.rate(word) > target for package in found.values() for word, (target, _) in TARGETS.items())
    kept = f"{len(pages)} pages for users have {sum(pages.values()):,} of {USER_WORDS:,} words"
    print("\n".join(wrong) or f"Each package keeps its budgets; {above} rates are above their targets; {kept}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
