"""Counts the fetches that a reader of the source sends before it takes an answer."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from twinlog.kafka.consumer import partition_reader
from twinlog.kafka.consumer.partition_reader import SourceReader


def count_fetches_ahead(monkeypatch: pytest.MonkeyPatch, *, backlog_bytes: int) -> Counter[bool]:
    """How often an answer is followed by a fetch ahead (True), and how often it is taken first; answers of
    `backlog_bytes` of a partition count as large."""
    monkeypatch.setattr(partition_reader, "BACKLOG_BYTES", backlog_bytes)
    counts = Counter[bool]()
    ask_ahead = SourceReader._ask_ahead

    def counting(self: SourceReader, *args: Any) -> Any:
        ahead = ask_ahead(self, *args)
        counts[ahead is not None] += 1
        return ahead

    monkeypatch.setattr(SourceReader, "_ask_ahead", counting)
    return counts
