"""The seed of a run of the tests, and what comes out of it for each of them.

pytest-randomly makes the seed, prints it and shares it with all workers; `--randomly-seed=N` repeats it. Without that
plugin it is always the same.
"""

from __future__ import annotations

import random
from zlib import crc32

import pytest


def seed_of(node: pytest.Item | pytest.Collector) -> str:
    """What all that a test draws comes from: the run's seed and the test's id, so that neither order nor workers count.

    The same of a module, for what its tests share.
    """
    return f"{node.config.getoption('randomly_seed', 0)} {node.nodeid}"


def chance_of(node: pytest.Item | pytest.Collector) -> random.Random:
    """A generator of its own for a test or a module; threads that draw from Python's shared one do not disturb it."""
    return random.Random(seed_of(node))


def own_number(node: pytest.Item | pytest.Collector) -> str:
    """Eight digits for names that no other test uses. They follow the seed: by its name a group has its coordinator."""
    return f"{crc32(seed_of(node).encode()):08x}"
