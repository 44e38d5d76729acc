"""The page of records: records beside their copies, in every form, and never in a log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from harness.virtual.requests import LIST_OFFSETS, REQUESTS
from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import FakeSources
from tests.unit.ui.login.test_security import HOSTILE, names_of
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.errors import ClusterError, RequestError
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.records import Record
from twinlog.mirror.offsets.translator import Translation
from twinlog.model.types import TargetOffset, TopicName, TopicPartition
from twinlog.ops.translate.offset_lookup import TranslatedOffset
from twinlog.settings.client import ClientSettings
from twinlog.ui.app import console_app
from twinlog.ui.both_sides import BothSidesReader, NewestTimes, RecordPair, _paired
from twinlog.ui.pages.topics.records import SHOWN_BYTES, shown_bytes
from twinlog.ui.site import ConsoleSettings
from twinlog.worker.control.model import LogPlace, LogPlaceKind

URL = "/ui/records?flow=a-%3Eb&topic=orders&partition=0&place=offset&value=4"
ONE = Record(4, 1_700_000_000_000, b"k", b'{"a": 1}', (("h", b"v"), ("n", None)))
PART = TopicPartition(TopicName("orders"), 0)


def test_records_stand_beside_their_copies_with_differences(browser: Browser, sources: FakeSources) -> None:
    sources.only.pairs = [
        RecordPair(ONE, ONE._replace(offset=3)),
        RecordPair(ONE._replace(offset=5), ONE._replace(offset=4, value=b"x", timestamp=0)),
        RecordPair(ONE._replace(offset=6), None, "its copy is still to come"),
    ]
    found = browser.json(URL)["found"]
    assert [one["differences"] for one in found["pairs"]] == [[], ["timestamp", "value"], []]
    assert found["pairs"][0]["copy"]["offset"] == 3
    assert found["later"].endswith("place=offset&value=7")
    assert found["earlier"].endswith("place=offset&value=0")
    text = browser.get(URL).text
    assert "its copy is still to come" in text
    assert "{&#34;a&#34;: 1}" in text
    assert "equal" in text
    pretty = browser.json(f"{URL}&as=json")["found"]["pairs"][0]["source"]["value"]["text"]
    assert pretty == '{\n  "a": 1\n}'
    assert browser.json(f"{URL}&as=hex")["found"]["pairs"][0]["source"]["key"]["text"] == "6b"


def test_bytes_of_another_form_are_shown_as_digits_and_long_ones_are_cut() -> None:
    assert shown_bytes(None, "text") == {"text": None, "form": "null", "bytes": 0, "cut": False}
    assert shown_bytes(b"\xff\x00", "json")["text"] == "ff 00"
    long = shown_bytes(b"x" * 100_000, "text")
    assert (len(long["text"]), long["cut"], long["bytes"]) == (SHOWN_BYTES, True, 100_000)
    assert shown_bytes(b"[" * 100_000, "json")["form"] == "text"


@pytest.mark.parametrize("hostile", HOSTILE)
def test_hostile_records_are_text(browser: Browser, sources: FakeSources, hostile: str) -> None:
    data = hostile.encode("utf-8", "surrogatepass")
    bad = Record(4, 0, data, data, ((hostile, data),))
    sources.only.pairs = [RecordPair(ONE, ONE)]
    plain = names_of(browser.get(URL).text)
    sources.only.pairs = [RecordPair(bad, bad)]
    for form in ("text", "json", "hex"):
        found = names_of(browser.get(f"{URL}&as={form}").text)
        assert found.tags <= plain.tags
        assert found.attributes <= plain.attributes


def test_values_are_never_logged(browser: Browser, sources: FakeSources, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sources.only.pairs = [RecordPair(ONE._replace(value=b"secret-value"))]
    assert "secret-value" in browser.get(URL).text
    sources.only.pairs = ValueError("secret-value")
    assert browser.get(URL).status == 500
    assert "secret-value" not in caplog.text
    assert 'action="read records" flow="a->b" partition="orders-0"' in caplog.text


def test_the_page_can_be_switched_off(sources: FakeSources) -> None:
    app = console_app(sources, ConsoleSettings(records=False))
    try:
        answer = Browser(app).get(URL)
        assert answer.status == 403
        assert "<code>--no-records</code> turned them off" in answer.text
    finally:
        app.close()


@pytest.mark.parametrize(
    ("query", "kept", "mistake"),
    [
        ("partition=x", {"partition": ["x"]}, "Write partitions as numbers"),
        ("place=time&value=x", {"place": ["time"], "value": ["x"]}, "is unknown; write 2026-11-20T08:00:00Z"),
        ("place=offset&value=", {"place": ["offset"]}, "Write the offset as a number"),
        ("place=nothing", {}, "Choose a place"),
    ],
)
def test_a_form_with_a_wrong_place_comes_back(
    browser: Browser, query: str, kept: dict[str, list[str]], mistake: str
) -> None:
    answer = browser.get(f"/ui/records?topic=orders&count=50&as=hex&{query}")
    assert answer.status == 400
    assert mistake in answer.text
    expected = {"topic": ["orders"], "count": ["50"], "as": ["hex"], **kept}
    assert {name: answer.fields[name] for name in expected} == expected
    data = browser.get(f"/ui/api/records?topic=orders&{query}").json
    assert (data["error_code"], data["found"]) == (400, None)
    assert mistake in data["message"]


def test_the_form_comes_back_if_a_cluster_is_silent(browser: Browser, sources: FakeSources) -> None:
    sources.only.pairs = ClusterError("cluster a: no broker answers")
    answer = browser.get(URL)
    assert (answer.status, answer.fields["topic"], answer.fields["value"]) == (502, ["orders"], ["4"])
    assert "no broker answers" in answer.text


def test_times_beyond_every_calendar_are_numbers(browser: Browser, sources: FakeSources) -> None:
    """A producer writes any time into a record, and a user any time into the form."""
    sources.only.pairs = [RecordPair(ONE._replace(timestamp=(1 << 63) - 1))]
    assert "9223372036854775807 ms" in browser.get(URL).text
    answer = browser.get("/ui/records?topic=orders&place=time&value=999999999999999999")
    assert answer.status == 200
    assert answer.fields["value"] == ["999999999999999999"]


def test_the_form_alone_reads_nothing(browser: Browser, sources: FakeSources) -> None:
    sources.only.pairs = ClusterError("never")
    assert browser.get("/ui/records").status == 200
    assert browser.json("/ui/records")["found"] is None


def test_settings_that_differ(browser: Browser, sources: FakeSources) -> None:
    sources.only.settings = [("retention.ms", "1", "2")]
    page = "/ui/topic/settings?flow=a-%3Eb&topic=orders"
    assert browser.json(page)["settings"] == [{"setting": "retention.ms", "source": "1", "target": "2"}]
    assert "retention.ms" in browser.get(page).text
    sources.only.settings = []
    assert "Every setting that the flow copies has the same value" in browser.get(page).text


def test_every_section_of_the_navigation_has_a_page(browser: Browser) -> None:
    for section in ("", "topics", "groups", "readiness", "records", "connectors"):
        answer = browser.get(f"/ui/{section}")
        assert answer.status == 200, section
        assert answer.text.count('aria-current="page"') == 1


def test_copies_are_paired_by_the_exact_map() -> None:
    found = [ONE._replace(offset=number) for number in (4, 5, 6, 7)]
    copies = [ONE._replace(offset=number) for number in (10, 11, 12)]
    places = {
        4: TranslatedOffset(PART, 4, PART, Translation(TargetOffset(10), True)),
        5: TranslatedOffset(PART, 5, PART, Translation(TargetOffset(12), True)),
        6: TranslatedOffset(PART, 6, PART, Translation(TargetOffset(12), False)),
        7: TranslatedOffset(PART, 7, reason="it is yet to be copied"),
    }
    shown = [
        (pair.source and pair.source.offset, pair.copy and pair.copy.offset, pair.reason)
        for pair in _paired(found, places, copies)
    ]
    assert shown == [
        (4, 10, ""),
        (None, 11, "a record of another source offset"),
        (5, 12, ""),
        (6, None, "its copy is at target offset 12 or later"),
        (7, None, "it is yet to be copied"),
    ]


@pytest.fixture
def virtual() -> Iterator[tuple[VirtualCluster, VirtualCluster, BothSidesReader]]:
    with virtual_loop(1) as loop:
        source, target = VirtualCluster(loop, "a"), VirtualCluster(loop, "b")

        def connect(alias: str, client: ClientSettings) -> ClusterAdmin:
            return ClusterAdmin(alias, client, VirtualLoop(loop.world))

        admins = {
            "source_admin": replace(SETTINGS.source_admin, client=ClientSettings(source.bootstrap)),
            "target_admin": replace(SETTINGS.target_admin, client=ClientSettings(target.bootstrap)),
        }
        with BothSidesReader(replace(SETTINGS, **admins), connect=connect) as reader:
            yield source, target, reader


def test_records_are_read_from_any_place(
    virtual: tuple[VirtualCluster, VirtualCluster, BothSidesReader],
) -> None:
    source, target, reader = virtual
    source.create("orders")
    source.write("orders", *(b"%d" % number for number in range(10)))
    target.create("a.orders")

    def offsets(kind: LogPlaceKind, value: int = 0, count: int = 3) -> list[int]:
        page = reader.records(PART, LogPlace(kind, value), count)
        assert page.log_end == 10
        return [one.source.offset for one in page.pairs if one.source is not None]

    assert offsets(LogPlaceKind.EARLIEST) == [0, 1, 2]
    assert offsets(LogPlaceKind.LATEST) == [7, 8, 9]
    assert offsets(LogPlaceKind.OFFSET, 4) == [4, 5, 6]
    assert offsets(LogPlaceKind.OFFSET, 999) == []
    page = reader.records(PART, LogPlace(LogPlaceKind.EARLIEST), 2)
    assert page.pairs[0].copy is None
    assert "has never run there" in page.pairs[0].reason
    assert page.next_offset == 2
    with pytest.raises(RequestError):
        reader.records(TopicPartition(TopicName("nothing"), 0), LogPlace(LogPlaceKind.EARLIEST), 2)


def test_the_newest_records_of_both_sides_have_their_times(
    virtual: tuple[VirtualCluster, VirtualCluster, BothSidesReader],
) -> None:
    source, target, reader = virtual
    orders = source.create("orders", 3)
    copies = target.create("a.orders", 2)
    for at_ms in (5000, 3000):
        orders[0].write(b"x", at_ms=at_ms)
    orders[1].write(b"x", at_ms=7000)
    copies[0].write(b"x", at_ms=5000)
    assert reader.newest_times(TopicName("orders")) == {0: NewestTimes(5000, 5000), 1: NewestTimes(7000, None)}
    assert reader.newest_times(TopicName("nothing")) == {}


def test_brokers_before_kafka_3_know_no_newest_record(
    virtual: tuple[VirtualCluster, VirtualCluster, BothSidesReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, _, reader = virtual
    monkeypatch.setitem(REQUESTS, LIST_OFFSETS, (REQUESTS[LIST_OFFSETS][0], 6))
    source.create("orders")[0].write(b"x", at_ms=5000)
    assert reader.newest_times(TopicName("orders")) == {}
