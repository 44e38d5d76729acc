"""Compares answers: a run's with the kept ones, and the kept ones of two workers with each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conformance.golden import HOME, Kept, facts, golden_file, read
from conformance.meant import MEANT
from harness.checks.differences import Difference, Known, differences, unexpected


def golden_answers(version: str, resource: str, home: Path = HOME) -> list[Kept]:
    """None of them where nothing was recorded yet."""
    try:
        return read(golden_file(version, resource, home))
    except FileNotFoundError:
        return []


def with_golden(
    version: str,
    resource: str,
    kept: Sequence[Kept],
    worker: str | None = None,
    home: Path = HOME,
    used: set[Known] | None = None,
) -> list[Difference]:
    """What `worker` answered otherwise than that of Kafka `version`, which was recorded, and is not meant to.

    `used` gets the explanations that explained something.
    """
    known = MEANT.get((version, worker or version), ())
    found = differences(facts(resource, golden_answers(version, resource, home)), facts(resource, kept))
    if used is not None:
        used.update(one for one in known if any(one.covers(each) for each in found))
    return unexpected(found, known)


def is_late(version: str, worker: str, resource: str, call: str) -> bool:
    """Whether `worker` is meant not to reach what a call waits for."""
    late = Difference(f"{resource} / {call}: waited in vain for", None, "")
    return not unexpected([late], MEANT.get((version, worker), ()))


def between(one: str, other: str, resources: Sequence[str], home: Path = HOME) -> list[Difference]:
    """Differences between two recorded workers that nobody has explained."""
    known = MEANT.get((one, other), ())
    left: list[Difference] = []
    for resource in resources:
        sides = [facts(resource, golden_answers(version, resource, home)) for version in (one, other)]
        left += unexpected(differences(*sides), known)
    return left


def idle(one: str, other: str, resources: Sequence[str], home: Path = HOME) -> list[Known]:
    """Explanations that explain nothing any more."""
    found = [
        difference
        for resource in resources
        for difference in differences(
            *[facts(resource, golden_answers(version, resource, home)) for version in (one, other)]
        )
    ]
    return [known for known in MEANT.get((one, other), ()) if not any(known.covers(each) for each in found)]
