"""A copier that begins at an old position takes an epoch of its producer that an earlier copier has used."""

from __future__ import annotations

from typing import Any

import pytest

from harness.virtual.requests import PRODUCE
from tests.unit.copier.copied import REMOTE, world
from twinlog.kafka.protocol.error_codes import Code


@pytest.mark.parametrize("how", [{"offsets": "identical"}, {}], ids=["identical", "translated"])
def test_a_batch_with_the_numbers_of_a_counted_batch_is_appended(how: dict[str, Any]) -> None:
    """The target answers it like a retry, at the offset of the counted batch, whose record it has deleted."""
    with world(**how) as here:
        here.write(b"0")
        copier = here.begin()
        here.until(lambda: here.copied() == [b"0"])
        here.pass_by(3)
        old = here.stored()
        assert old is not None
        assert old.writer is not None
        # The next record is appended under the next epoch, with the sequence number 0.
        here.target.codes(PRODUCE, REMOTE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
        here.write(b"1")
        here.until(lambda: here.copied() == [b"0", b"1"])
        here.crash(copier)
        here.target.log(REMOTE).delete_before(2)
        here.write(b"2")
        here.begin(here.grant(position=old))
        here.until(lambda: here.copied() == [b"2"] or bool(here.held) or here.target.log(REMOTE).end > 3)
        here.pass_by(3)
        assert here.held == []
        assert (here.target.log(REMOTE).end, here.copied()) == (3, [b"2"])
        assert "target" not in [kind for kind, _ in here.events]
        stored = here.stored()
        assert stored is not None
        assert stored.writer is not None
        assert (stored.writer.producer_id, stored.writer.epoch) == (old.writer.producer_id, old.writer.epoch + 2)
