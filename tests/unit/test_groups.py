"""Which groups commit as consumers do, and which are proven to have no members."""

from __future__ import annotations

import pytest

from twinlog.model.groups import GroupListing
from twinlog.model.types import GroupId


@pytest.mark.parametrize(
    ("protocol", "kind", "commits"),
    [
        ("consumer", "classic", True),
        ("consumer", "consumer", True),
        ("consumer", "Consumer", True),
        ("consumer", "", True),
        ("", "classic", True),
        ("connect", "classic", False),
        ("sr", "", False),
        ("share", "share", False),
        ("streams", "streams", False),
    ],
)
def test_groups_that_commit_as_consumers_do(protocol: str, kind: str, commits: bool) -> None:
    assert GroupListing(GroupId("g"), protocol, "Empty", kind).commits is commits


@pytest.mark.parametrize("state", ["Stable", "Dead", "PreparingRebalance", "CompletingRebalance", "Assigning", ""])
def test_only_the_state_empty_proves_that_a_group_is(state: str) -> None:
    assert not GroupListing(GroupId("g"), "consumer", state).empty
    assert GroupListing(GroupId("g"), "consumer", "Empty").empty
