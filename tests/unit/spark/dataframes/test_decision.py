"""The decision about a micro-batch as metadata of offsets."""

from __future__ import annotations

import random

import pytest

from twinlog.kafka.coordinator.transactions import NOBODY, ProducerEpoch
from twinlog.spark.dataframes.decision import PIECE, CommitDecision, decode_decision, encode_decision, pieces_of


@pytest.mark.parametrize("parts", [1, 7, 5_000])
def test_a_decision_comes_back_from_pieces_that_brokers_take(parts: int, chance: random.Random) -> None:
    holders = [ProducerEpoch(chance.randrange(2**62), chance.randrange(2**15)) for _ in range(parts)]
    decision = CommitDecision(12, (NOBODY, *holders))
    pieces = encode_decision(decision)
    assert all(len(piece) <= PIECE + 20 < 4_096 for piece in pieces)
    assert pieces_of(pieces[0]) == len(pieces)
    assert (len(pieces) > 1) == (parts > 1_000)
    assert decode_decision(12, pieces) == decision


@pytest.mark.parametrize("text", ["", "a consumer's", "2:1:abc", "1:1:!", "1:1:AAAA", "1:1:eJxjAAAAAQAB"])
def test_other_metadata_is_no_decision(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011, PT012
        pieces_of(text)
        decode_decision(1, [text])
