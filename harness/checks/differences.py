"""Compares what two mirrors left behind, fact by fact, and prints what differs in lines that one can read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Facts = Mapping[str, str]
"""Name of a fact, such as `topic left.orders: partitions`, and what is so."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact; None on the side that does not have it."""

    fact: str
    one: str | None
    other: str | None


@dataclass(frozen=True, slots=True)
class Known:
    """Facts that may differ, by a regular expression for their whole names, and why that is wanted.

    `one` and `other` are such expressions for what the sides say, where only that may differ; a side that does not have
    the fact says nothing.
    """

    facts: str
    reason: str
    one: str = ".*"
    other: str = ".*"

    def covers(self, difference: Difference) -> bool:
        said = ((self.facts, difference.fact), (self.one, difference.one or ""), (self.other, difference.other or ""))
        return all(re.fullmatch(pattern, text, re.DOTALL) is not None for pattern, text in said)


def differences(one: Facts, other: Facts) -> list[Difference]:
    """All facts that are not the same on both sides, sorted by name."""
    return [
        Difference(fact, one.get(fact), other.get(fact))
        for fact in sorted(one.keys() | other.keys())
        if one.get(fact) != other.get(fact)
    ]


def unexpected(found: Sequence[Difference], known: Sequence[Known]) -> list[Difference]:
    """Differences that nobody has explained."""
    return [difference for difference in found if not any(one.covers(difference) for one in known)]


def readable(found: Sequence[Difference], one: str, other: str) -> str:
    """Three lines for each difference; `one` and `other` name the sides."""
    width = max(len(one), len(other))
    lines = []
    for difference in found:
        lines.append(difference.fact)
        for name, value in ((one, difference.one), (other, difference.other)):
            lines.append(f"    {name:{width}}  {'(absent)' if value is None else value}")
    return "\n".join(lines)
