"""Numbers of items in words: a single item is in the singular."""

from __future__ import annotations

import pytest

from twinlog.model.amounts import counted


@pytest.mark.parametrize(
    ("count", "name", "words"),
    [
        (0, "partition", "0 partitions"),
        (1, "partition", "1 partition"),
        (1200, "partition", "1,200 partitions"),
        (1, "process", "1 process"),
        (2, "process", "2 processes"),
        (1, "more record", "1 more record"),
    ],
)
def test_a_single_item_is_in_the_singular(count: int, name: str, words: str) -> None:
    assert counted(count, name) == words
