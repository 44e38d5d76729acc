"""Offset syncs are kept as they came until somebody asks for their partition."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.mirror.offsets import sync_store
from twinlog.mirror.offsets.sync_store import SyncStore
from twinlog.mirror.offsets.sync_translation import MirrorTranslation
from twinlog.mirror.offsets.syncs import OffsetSync
from twinlog.model.types import TopicName, TopicPartition

PARTS = [TopicPartition(TopicName("orders"), number) for number in range(2)]


class Reader:
    def __init__(self) -> None:
        self.news: list[tuple[bytes | None, bytes | None]] = []

    def read(self) -> Any:
        while self.news:
            key, value = self.news.pop(0)
            yield PARTS[0], SimpleNamespace(key=key, value=value)


def sync(partition: int, upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(TopicName("orders"), partition, upstream, downstream)


def store(accepts: Any = lambda _: True) -> tuple[SyncStore, Reader]:
    reader = Reader()
    return SyncStore(reader, accepts, threading.Lock()), reader  # type: ignore[arg-type]


@pytest.mark.parametrize("at_most", [1, 4096])
def test_it_keeps_what_mirror_maker_2_keeps(monkeypatch: pytest.MonkeyPatch, at_most: int) -> None:
    monkeypatch.setattr(sync_store, "KEPT_APART", at_most)
    found, reader = store()
    expected = MirrorTranslation()
    expected.ready()
    for number in range(300):
        for one in (sync(0, number * 100, number * 90), sync(1, number * 7, number * 7 + 5)):
            reader.news.append((one.key, one.value))
            expected.add(one)
        if number % 37 == 0:
            found.read()
    reader.news += [(None, b"x" * 16), (b"?", b"x" * 16), (sync(0, 0, 0).key, None), (sync(0, 0, 0).key, b"short")]
    found.read()
    for part in PARTS:
        assert found.get_translation(part).kept(part) == expected.kept(part)
        assert found.get_translation(part).translate(part, 1505) == expected.translate(part, 1505)
    assert (
        found.get_translation(TopicPartition(TopicName("other"), 0)).newest(TopicPartition(TopicName("other"), 0))
        is None
    )


def test_a_redundant_sync_takes_no_place() -> None:
    asked: list[OffsetSync] = []

    def accepts(one: OffsetSync) -> bool:
        asked.append(one)
        return one.upstream >= 10

    found, reader = store(accepts)
    for one in (sync(0, 20, 20), sync(0, 5, 5), sync(1, 30, 30)):
        reader.news.append((one.key, one.value))
    found.read()
    assert asked == []
    assert found.get_translation(PARTS[0]).newest(PARTS[0]) == sync(0, 20, 20)
    assert asked == [sync(0, 20, 20), sync(0, 5, 5)]


def test_a_recreated_remote_topic_begins_anew() -> None:
    found, reader = store()
    for one in (sync(0, 0, 0), sync(0, 100, 100), sync(0, 150, 3)):
        reader.news.append((one.key, one.value))
    found.read()
    assert found.get_translation(PARTS[0]).kept(PARTS[0]) == [sync(0, 150, 3)]
