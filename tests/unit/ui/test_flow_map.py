"""The map of the overview: boxes and labels lie apart, the same flows have the same map, and names are text."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ops.status.test_state import NOW
from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import HELD, FakeSources, snapshot
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.errors import ClusterError
from twinlog.model.types import Alias
from twinlog.ops.status.state import STALE_S
from twinlog.ui.app import console_app
from twinlog.ui.pages.flow_map import (
    ACROSS,
    BOX_HEIGHT,
    BOX_WIDTH,
    GAP,
    LABEL_HEIGHT,
    LABEL_WIDTH,
    MOST_CLUSTERS,
    MOST_FLOWS,
    FlowEnds,
    MapPoint,
    cluster_places,
    flow_arrows,
    flow_map,
    label_places,
    overlap,
)
from twinlog.ui.rendering import brief, short

LONG = "cluster-of-the-region-" + "x" * 220 + "-number-1"


def placed(ends: Sequence[FlowEnds]) -> tuple[dict[str, MapPoint], list[MapPoint]]:
    """The boxes and the labels of flows."""
    places = cluster_places(list(dict.fromkeys(name for pair in ends for name in pair)), ends)
    return places, label_places(places.values(), flow_arrows(places, ends))


def rows_of(ends: Sequence[FlowEnds]) -> list[dict[str, Any]]:
    return [
        {"flow": f"{source}->{target}", "source": source, "target": target, "condition": "running", "figures": None}
        for source, target in ends
    ]


def ring(count: int) -> list[FlowEnds]:
    return [(f"c{number}", f"c{(number + 1) % count}") for number in range(count)]


def both_ways(ends: Sequence[FlowEnds]) -> list[FlowEnds]:
    return [pair for source, target in ends for pair in ((source, target), (target, source))]


FAN = [("hub", f"c{number}") for number in range(8)]
SHAPES = {
    "a flow": [("a", "b")],
    "both ways": both_ways([("a", "b")]),
    "four between two": [("a", "b")] * 4,
    "a fan": FAN,
    "a funnel": [(target, source) for source, target in FAN],
    "a hub both ways": both_ways(FAN[:6]),
    "a ring": ring(6),
    "a ring both ways": both_ways(ring(5)),
    "all to all": both_ways(list(combinations("abcd", 2))),
    "a chain": [("a", "b"), ("b", "c"), ("c", "d")],
}


@pytest.mark.parametrize("ends", SHAPES.values(), ids=list(SHAPES))
def test_boxes_and_labels_lie_apart(ends: Sequence[FlowEnds]) -> None:
    places, labels = placed(ends)
    for one, other in combinations(places.values(), 2):
        assert not overlap(one, other, BOX_WIDTH, BOX_HEIGHT)
    for one, other in combinations(labels, 2):
        assert not overlap(one, other, LABEL_WIDTH, LABEL_HEIGHT), (one, other)
    for label in labels:
        for box in places.values():
            assert not overlap(label, box, (LABEL_WIDTH + BOX_WIDTH) / 2, (LABEL_HEIGHT + BOX_HEIGHT) / 2)


@pytest.mark.parametrize("count", range(3, MOST_CLUSTERS + 1))
def test_every_ring_has_room_for_its_boxes(count: int) -> None:
    places, _ = placed(ring(count))
    assert len(places) == count
    for one, other in combinations(places.values(), 2):
        assert not overlap(one, other, BOX_WIDTH, BOX_HEIGHT), count


def test_sources_are_on_the_left_of_targets_and_a_hub_is_alone() -> None:
    for ends in (SHAPES["a flow"], FAN, SHAPES["a funnel"]):
        places, _ = placed(ends)
        assert all((places[source].x, places[target].x) == (-ACROSS, ACROSS) for source, target in ends)
    places, _ = placed(SHAPES["a hub both ways"])
    assert [name for name, at in places.items() if at.x < 0] == ["hub"]
    places, _ = placed(SHAPES["a chain"])
    assert len({at.x for at in places.values()}) > 2, "a chain is a ring"


def test_an_arrow_begins_and_ends_at_the_borders_of_its_boxes() -> None:
    for ends in (*SHAPES.values(), [("a", "a"), ("a", "a"), ("a", "b")]):
        places, _ = placed(ends)
        for (source, target), arrow in zip(ends, flow_arrows(places, ends), strict=True):
            for box, at in ((places[source], arrow.begin), (places[target], arrow.end)):
                beside = max(abs(at.x - box.x) - BOX_WIDTH / 2, abs(at.y - box.y) - BOX_HEIGHT / 2)
                assert beside == pytest.approx(GAP)
            assert tuple(arrow.point_at(0.0)) == pytest.approx(tuple(arrow.begin))
            assert tuple(arrow.point_at(1.0)) == pytest.approx(tuple(arrow.end))
            assert re.fullmatch(r"M-?[\d.]+ -?[\d.]+Q(-?[\d.]+ ){3}-?[\d.]+", arrow.line), arrow.line
            assert arrow.head.startswith(f"M{arrow.end.x:.1f} {arrow.end.y:.1f}L")


def test_everything_lies_within_the_view() -> None:
    for ends in SHAPES.values():
        drawn = flow_map(rows_of(ends))
        assert drawn is not None
        left, top, width, height = drawn["view"]
        boxes = [(one["x"], one["y"], BOX_WIDTH, BOX_HEIGHT) for one in drawn["clusters"]]
        boxes += [(one["x"], one["y"], LABEL_WIDTH, LABEL_HEIGHT) for one in drawn["arrows"]]
        for x, y, wide, high in boxes:
            assert left <= x
            assert x + wide <= left + width
            assert top <= y
            assert y + high <= top + height


def test_figures_move_nothing() -> None:
    rows = rows_of(SHAPES["a hub both ways"])
    before = flow_map(rows)
    assert before is not None
    later = flow_map([{**row, "condition": "down"} for row in rows])
    assert later is not None
    assert [one.pop("look") for one in before["arrows"]] == ["running"] * len(rows)
    assert [one.pop("look") for one in later["arrows"]] == ["down"] * len(rows)
    assert later == before


def test_a_larger_map_is_left_to_the_table() -> None:
    assert flow_map([]) is None
    assert flow_map(rows_of(ring(MOST_CLUSTERS))) is not None
    assert flow_map(rows_of(ring(MOST_CLUSTERS + 1))) is None
    assert flow_map(rows_of([("a", "b")] * MOST_FLOWS)) is not None
    assert flow_map(rows_of([("a", "b")] * (MOST_FLOWS + 1))) is None


def many_flows(ends: Sequence[FlowEnds]) -> FakeSources:
    return FakeSources(*(replace(SETTINGS, source=Alias(source), target=Alias(target)) for source, target in ends))


def test_thirty_clusters_with_sixty_flows_have_the_list_and_the_table() -> None:
    app = console_app(many_flows(both_ways(ring(30))))
    browser = Browser(app)
    page = browser.json("/ui/")
    assert (len(page["flows"]), len(page["clusters"]), page["map"]) == (60, 30, None)
    text = browser.get("/ui/").text
    assert "<svg" not in text
    assert f"A map is drawn for up to {MOST_CLUSTERS} clusters and {MOST_FLOWS} flows." in text
    assert text.count('<th scope="row">') == 60
    app.close()


def arrow_of(text: str) -> tuple[str, str, str, str]:
    """The classes, the link and the name of the only arrow of a page, and its texts."""
    (found,) = re.findall(r'<a class="flow-arrow ([^"]*)" href="([^"]*)" aria-label="([^"]*)">(.*?)</a>', text, re.S)
    looks, link, name, inner = found
    return looks, link, html.unescape(name), " | ".join(re.findall(r"<text [^>]*>([^<]*)</text>", inner))


def test_an_arrow_has_state_rate_and_lag_and_leads_to_its_flow(browser: Browser, sources: FakeSources) -> None:
    part = browser.get("/ui/", hx_request="true", hx_target="div#live").text
    looks, link, name, texts = arrow_of(part)
    assert (looks, link) == ("running", "/ui/flow?flow=a-%3Eb")
    assert name == "a->b: running, 1,000 records/s, lag 1,204, 3 s"
    assert texts == "1,000 records/s | lag 1,204, 3 s"
    assert browser.get(link).status == 200
    sources.only.flow = snapshot(replace(REPORTED, held=12, held_partitions=(HELD,)))
    refresh(browser)
    assert arrow_of(browser.get("/ui/").text)[::3] == ("held", "12 held, 1,000/s | lag 1,204, 3 s")
    sources.only.flow = snapshot(replace(REPORTED, at_ms=NOW - int(1000 * STALE_S) - 1000), processes=())
    refresh(browser)
    looks, _, _, texts = arrow_of(browser.get("/ui/").text)
    assert (looks, texts) == ("down", "dead | lag ?")
    sources.only.flow = ClusterError("cluster b: no broker answers")
    refresh(browser)
    assert arrow_of(browser.get("/ui/").text)[::3] == ("unknown", "unknown | lag ?")


def refresh(browser: Browser) -> None:
    """Wait for a reading that began after this call."""
    poller = browser.app.site.live.flow("a->b").state  # type: ignore[attr-defined]
    for _ in range(2):
        version = poller.reading.version
        poller.hurry()
        assert poller.wait_reading(60.0, version).version > version


def test_long_and_hostile_names_are_short_texts_with_a_title() -> None:
    names = [LONG, "<script>alert(1)</script>", '"><svg onload=x>', "'&amp;\u202e\u0007"]
    for name in names:
        app = console_app(many_flows([(name, "b")]))
        text = Browser(app).get("/ui/").text
        app.close()
        drawn = text[text.index('<svg class="flow-map"') : text.index("</svg>\n</div>")]
        tags = set(re.findall(r"<(\w+)", drawn))
        assert tags == {"svg", "a", "title", "path", "rect", "text"}
        assert name in [html.unescape(one) for one in re.findall(r"<title>([^<]*)</title>", drawn)]
        texts = [html.unescape(one) for one in re.findall(r"<text [^>]*>([^<]*)</text>", drawn)]
        assert max(map(len, texts)) <= 20
        assert short(name, 16) in texts


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "?"),
        (0, "0"),
        (1204.4, "1,204"),
        (999_999, "999,999"),
        (999_999.7, "1.0 M"),
        (12_345_678, "12.3 M"),
        (999_960_000, "1.0 G"),
        (5e12, "5.0 T"),
        (5e15, "5,000.0 T"),
    ],
)
def test_figures_are_brief(value: float | None, shown: str) -> None:
    assert brief(value) == shown


def test_names_lose_their_middle() -> None:
    assert short("east", 18) == "east"
    assert short("x" * 18, 18) == "x" * 18
    assert short("amsterdam-production-1", 18) == "amsterdam…uction-1"
