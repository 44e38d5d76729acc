"""What a copier spares heartbeats, and nothing else: the transform, and the report of what others write."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.copier.changing import ODD, VALUES, at_end, by
from tests.unit.copier.copied import REMOTE, world


@pytest.mark.parametrize("heartbeats", [False, True])
def test_heartbeats_alone_are_not_transformed(heartbeats: bool) -> None:
    with world(transform=by("odd")) as here:
        here.feed(VALUES)
        here.begin(replace(here.grant(), heartbeats=heartbeats))
        here.until(lambda: at_end(here))
        assert here.copied() == (VALUES if heartbeats else ODD)
        assert here.failures == []


@pytest.mark.parametrize("heartbeats", [False, True])
def test_of_heartbeats_alone_it_is_not_reported_what_others_write(heartbeats: bool) -> None:
    """Several connectors between two clusters all copy them."""
    with world() as here:
        here.feed(VALUES[:6])
        here.begin(replace(here.grant(), heartbeats=heartbeats))
        here.until(lambda: here.copied() == VALUES[:6])
        here.target.write(REMOTE, b"ours as well")
        here.feed(VALUES[6:])
        here.until(lambda: at_end(here))
        assert [kind for kind, _ in here.events] == ([] if heartbeats else ["foreign"])
