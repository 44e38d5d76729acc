"""Offset syncs are kept as they came, and offsets translate as Kafka's OffsetSyncStore translates them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twinlog.mirror.offsets import sync_store
from twinlog.mirror.offsets.sync_store import UNTRANSLATABLE, MirrorSyncStore, MirrorTranslation, PlaceStore
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


def store(accepts: Any = lambda _: True) -> tuple[MirrorSyncStore, Reader]:
    reader = Reader()
    return MirrorSyncStore(reader, accepts, threading.Lock()), reader  # type: ignore[arg-type]


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


def test_very_many_syncs_are_thinned_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync_store, "MOST_SYNCS", 100)
    reader = Reader()
    found = PlaceStore(reader, lambda _: True, threading.Lock())  # type: ignore[arg-type]
    for number in range(1_000):
        for one in (sync(0, number * 10, number * 10), sync(1, number * 5, number * 5)):
            reader.news.append((one.key, one.value))
    found.read()
    assert [found.newest(part) for part in PARTS] == [(9_990, 9_990), (4_995, 4_995)]
    places = [found.find_places(part)[0] for part in PARTS]
    assert sum(map(len, places)) <= 100
    first, last = places[0].to_target(5), places[0].to_target(9_991)
    assert first is not None
    assert last is not None
    assert (first.least, last.least) == (1, 9_991)


def test_syncs_of_the_flow_itself_stay_only_until_a_map_covers_them() -> None:
    end = 100
    reader = Reader()
    found = PlaceStore(reader, lambda one: not 100 <= one.upstream < end, threading.Lock())  # type: ignore[arg-type]
    for one in (sync(0, 0, 0), sync(0, 50, 50)):
        reader.news.append((one.key, one.value))
    for number in range(100, 200):
        reader.news.append((sync(0, number, number).key, sync(0, number, number).value))
        found.read()
        # The end of the copies is stored a moment later.
        assert found.newest(PARTS[0]) == (number, number)
        end = number + 1
    assert len(found.find_places(PARTS[0])[0]) == 3


RECORDED = Path(__file__).parents[3] / "recorded" / "translations.jsonl"
ROWS = [row for row in map(json.loads, RECORDED.read_text("utf-8").splitlines()) if row["kind"] == "store"]
PART = TopicPartition(TopicName("orders"), 3)


def sync_of(upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(PART.topic, PART.partition, upstream, downstream)


def translation(pairs: Iterable[tuple[int, int]], *, latest_only: bool = False) -> MirrorTranslation:
    made = MirrorTranslation(latest_only=latest_only)
    for pair in pairs:
        made.add(sync_of(*pair))
    made.ready()
    return made


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{len(row['syncs'])}-syncs")
def test_answers_are_those_of_kafkas_store(row: dict[str, Any]) -> None:
    made = MirrorTranslation(latest_only=row["latest_only"])
    for number, pair in enumerate(row["syncs"]):
        if number == row["before_ready"]:
            made.ready()
        made.add(sync_of(*pair))
    if row["before_ready"] == len(row["syncs"]):
        assert (made.translate(PART, row["syncs"][0][0]) is not None) == row["answered_early"]
        made.ready()
    assert [kept.upstream for kept in made.kept(PART)] == row["kept"]
    assert [made.translate(PART, offset) for offset in row["asked"]] == row["answers"]


def test_rows_try_every_way() -> None:
    assert {row["latest_only"] for row in ROWS} == {True, False}
    assert any(UNTRANSLATABLE in row["answers"] for row in ROWS)
    assert any(0 < row["before_ready"] < len(row["syncs"]) for row in ROWS)
    assert any(row["syncs"] != sorted(row["syncs"]) for row in ROWS)
    assert any(row["syncs"][0][0] > 2**62 for row in ROWS)


def test_offsets_between_syncs_translate_after_the_one_before() -> None:
    made = translation((i * 100, 5000 + i * 101) for i in range(11))
    assert [kept.upstream for kept in made.kept(PART)] == [1000, 900, 800, 400, 0]
    asked = [0, 50, 100, 450, 500, 900, 999, 1000, 1234]
    answers = [5000, 5001, 5001, 5405, 5405, 5909, 5910, 6010, 6011]
    assert [made.translate(PART, offset) for offset in asked] == answers


@pytest.mark.parametrize(
    ("step", "end", "kept"),
    [
        (7, 140, [140, 133, 126, 112, 56, 0]),
        (100, 100_000, [100000, 99900, 99800, 99600, 99200, 97600, 96000, 89600, 76800, 51200, 0]),
        (
            100,
            1_000_000,
            [
                *(1000000, 999900, 999800, 999600, 999200, 998400, 995200, 992000, 985600),
                *(972800, 921600, 819200, 614400, 409600, 0),
            ],
        ),
    ],
)
def test_older_syncs_are_kept_at_doubling_distances(step: int, end: int, kept: list[int]) -> None:
    made = translation((upstream, upstream) for upstream in range(0, end + 1, step))
    assert [one.upstream for one in made.kept(PART)] == kept


def test_a_new_sync_may_make_a_translation_smaller() -> None:
    made = translation((30 + i, 2 + i) for i in range(6))
    assert [one.upstream for one in made.kept(PART)] == [35, 34, 32, 30]
    assert made.translate(PART, 33) == 5
    made.add(sync_of(36, 8))
    assert [one.upstream for one in made.kept(PART)] == [36, 35, 34, 30]
    assert made.translate(PART, 33) == 3


def test_without_checkpoints_only_the_last_sync_at_the_start_counts() -> None:
    made = translation(((i * 10, i * 10) for i in range(10)), latest_only=True)
    assert [made.translate(PART, offset) for offset in (89, 90, 91)] == [UNTRANSLATABLE, 90, 91]
    made.add(sync_of(100, 100))
    assert [made.translate(PART, offset) for offset in (90, 95, 100)] == [90, 91, 100]


def test_nothing_is_translated_without_a_sync() -> None:
    made = translation([(10, 10)])
    assert made.translate(TopicPartition(PART.topic, 4), 10) is None
    assert made.kept(TopicPartition(PART.topic, 4)) == []
