"""Expressions mean what they mean to `java.util.regex`, which is asked."""

from __future__ import annotations

import random
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from hypothesis import settings

from harness.jvm.java import java_command
from tests.drawn_patterns import Drawn, drawn_pattern
from twinlog.errors import PatternError
from twinlog.model.java_regex.pattern import JavaPattern, java_pattern

DRAWN = 100 * settings().max_examples
"""Of the profile: 2,500 in `make test`, 10,000 in `make draws`."""

LEFT_OUT = ("a group that refers to itself", "for canonical equivalence", "&& that lacks its right side")
"""What Java takes and no user needs. It fails itself at the last one as soon as there is a name."""


def test_drawn_expressions_match_what_java_matches(chance: random.Random) -> None:
    drawn = [drawn_pattern(chance) for _ in range(DRAWN)]
    counts = {"refused": 0, "left out": 0, "matches": 0, "matches not": 0, "found": 0, "left over": 0, "failed": 0}
    for one, answer in zip(drawn, _answers(drawn), strict=True):
        pattern = _compiled(one.pattern)
        if answer == "refused":
            assert isinstance(pattern, str), one.pattern
            counts["refused"] += 1
            continue
        if isinstance(pattern, str):
            assert any(reason in pattern for reason in LEFT_OUT), (one.pattern, pattern)
            counts["left out"] += 1
            continue
        for name, said in zip(one.names, answer.split(","), strict=True):
            # Java took too long as well.
            if said == "failed":
                counts["failed"] += 1
                continue
            matches, *groups = said.split(" ")
            assert pattern.matches(name) == (matches == "true"), (one.pattern, name)
            counts["matches" if matches == "true" else "matches not"] += 1
            if one.finds:
                found = _found(pattern, name)
                if found != groups:
                    assert _left_over(found, groups), (one.pattern, name, found, groups)
                    counts["left over"] += 1
                counts["found"] += groups != ["none"]
    # Enough of each for the test to say something.
    assert counts["refused"] > DRAWN / 20
    assert counts["left out"] < DRAWN / 100
    assert counts["matches"] > DRAWN / 2
    assert counts["matches not"] > DRAWN
    assert counts["found"] > DRAWN
    assert counts["left over"] < DRAWN / 1000
    assert counts["failed"] < DRAWN / 100


def _left_over(ours: list[str], javas: list[str]) -> bool:
    """Whether the same is found, and Java alone has a group from a repetition that it gave up, as it does not clear
    these."""
    return len(ours) == len(javas) and all(our in (java, "-") for our, java in zip(ours, javas, strict=True))


def _compiled(text: str) -> JavaPattern | str:
    """The expression, or why it is refused."""
    try:
        return java_pattern(text)
    except PatternError as error:
        return error.why


def _answers(drawn: list[Drawn]) -> Iterator[str]:
    lines = "".join(",".join(_encoded(text) for text in (one.pattern, *one.names)) + "\n" for one in drawn)
    # The stack is for groups in groups; one that is too small would be an answer of its own.
    command = [
        java_command(),
        "-Xss16m",
        "-XX:TieredStopAtLevel=1",
        str(Path(__file__).with_name("MatchPatterns.java")),
    ]
    ran = subprocess.run(command, input=lines, check=True, capture_output=True, text=True, timeout=600)
    return iter(ran.stdout.splitlines())


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _found(pattern: JavaPattern, name: str) -> list[str]:
    found = pattern.find(name)
    if found is None:
        return ["none"]
    return ["-" if group is None else _encoded(group) for group in found.groups]
