"""Records that transforms of tests change, and what came of them."""

from __future__ import annotations

from typing import Any

from tests.unit.copier.copied import World
from twinlog.settings.transform import TransformSettings

NUMBERS = range(1, 41)

VALUES = [b"%d" % number for number in NUMBERS]

ODD = [b"%d" % number for number in NUMBERS if number % 2]

EVEN = [b"%d" % number for number in NUMBERS if number % 2 == 0]


def by(function: str, **how: Any) -> TransformSettings:
    return TransformSettings(f"tests.transforms:{function}", **how)


def at_end(here: World) -> bool:
    return at(here) == len(VALUES)


def seen(here: World, topic: str, number: int = 0) -> list[bytes | None]:
    committed = here.settings.exactly_once == "enabled"
    return here.target.log(topic, number).values(committed=committed)


def at(here: World, number: int = 0) -> int:
    """The next source offset by the stored position."""
    found = here.stored(number)
    return -1 if found is None else found.next_source
