"""A compiled expression: its matches with names, in bounded time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import regex

from twinlog.errors import PatternError
from twinlog.model.java_regex.parser import parsed
from twinlog.model.java_regex.translation import UntranslatableError, group_name, translated

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
            f"more than {MATCH_S:g} s for the name {name!r}, as what a repeat repeats can match in many ways; write "
            "the expression so that there is one way",
            None,
            self.text,
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
