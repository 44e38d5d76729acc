"""The log of the virtual cluster: what it knows of producers after it lost its end."""

from __future__ import annotations

from harness.virtual.log import VirtualLog
from twinlog.kafka.protocol.error_codes import Code
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp


def batch(sequence: int, *, epoch: int = 0, transactional: bool = False) -> bytes:
    """Two records of producer 7."""
    data = bytearray(encode_batch([(0, record_body(None, b"%d" % number)) for number in range(2)], 0))
    stamp(data, 7, epoch, sequence, transactional=transactional)
    return bytes(data)


def test_sequence_numbers_go_on_after_the_last_batch_that_an_unclean_election_left() -> None:
    log = VirtualLog()
    for sequence in (0, 2, 4):
        assert log.append(batch(sequence)) == (Code.NONE, sequence)
    log.cut(4)
    assert log.append(batch(6)) == (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert log.append(batch(2)) == (Code.NONE, 2)
    assert log.end == 4
    assert log.append(batch(4)) == (Code.NONE, 4)
    assert log.end == 6


def test_a_producer_of_which_nothing_is_left_is_unknown_after_an_unclean_election() -> None:
    log = VirtualLog()
    log.write(b"of another one")
    log.append(batch(0, epoch=3))
    log.cut(1)
    assert log.append(batch(40, epoch=2)) == (Code.NONE, 1)


def test_a_transaction_is_open_again_whose_marker_an_unclean_election_lost() -> None:
    log = VirtualLog()
    log.append(batch(0, transactional=True))
    log.mark(7, 0, commit=False)
    log.append(batch(2, transactional=True))
    log.mark(7, 0, commit=False)
    assert (log.stable_end, log.open) == (6, {})
    log.cut(5)
    assert (log.stable_end, log.open, log.aborted) == (3, {7: 3}, [(7, 0, 2)])


def test_a_transaction_is_unknown_whose_records_an_unclean_election_lost() -> None:
    log = VirtualLog()
    log.write(b"of another one")
    log.append(batch(0, transactional=True))
    log.cut(1)
    assert (log.stable_end, log.open) == (1, {})
