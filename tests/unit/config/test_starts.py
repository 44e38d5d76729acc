"""What `auto.offset.reset` and `twinlog.start` accept, and what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.said import said
from tests.unit.config.test_connector import ENDS, build
from tests.unit.config.test_connector import problems as connector_problems
from twinlog.config import load
from twinlog.config.text.explain import explain
from twinlog.config.text.values import ValueRefusedError, read_reset, read_start
from twinlog.errors import ConfigError
from twinlog.settings.flow import FlowSettings
from twinlog.settings.start import Start

BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"
DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        # The examples of java.time.Duration.parse.
        ("PT20.345S", 20_345),
        ("PT15M", 900_000),
        ("PT10H", 36_000_000),
        ("P2D", 2 * DAY_MS),
        ("P2DT3H4M", 2 * DAY_MS + 3 * 3_600_000 + 4 * 60_000),
        ("PT-6H+3M", None),
        ("-PT6H3M", None),
        ("-PT-6H+3M", 6 * 3_600_000 - 3 * 60_000),
        ("P7D", 7 * DAY_MS),
        ("p7d", 7 * DAY_MS),
        ("pt1h", 3_600_000),
        ("+P1D", DAY_MS),
        ("PT0S", 0),
        ("PT1.S", 1000),
        ("PT1,5S", 1500),
        ("PT0.0001S", 1),
        ("PT1S", 1000),
        ("PT-0.5S", None),
        ("-PT-0.5S", 500),
        ("P1DT-1H", 23 * 3_600_000),
        ("P106751991168D", None),
        ("PT9223372036854775807S", None),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("P1W", None),
        ("P1M", None),
        ("P1Y", None),
        ("P1.5D", None),
        ("7D", None),
        ("PT1H2H", None),
        ("PT.5S", None),
        ("PT1.0123456789S", None),
        ("P-1D", None),
        ("", None),
        ("P\u0667D", None),
    ],
)
def test_durations_are_javas(text: str, ms: int | None) -> None:
    if ms is None:
        with pytest.raises(ValueRefusedError):
            read_reset(f"by_duration:{text}")
    else:
        assert read_reset(f" by_duration:{text} ") == Start("ago", ms)
        assert read_start(text) == read_start(f"by_duration:{text}") == Start("ago", ms)


@pytest.mark.parametrize("text", ["earliest", "latest", "none"])
def test_words(text: str) -> None:
    assert read_reset(text).kind == text
    assert str(read_reset(text)) == text


@pytest.mark.parametrize("text", ["LATEST", "by_duration", "by_duration:", "By_Duration:P1D", "P7D", "2026-11-01", ""])
def test_other_words_are_none_of_kafkas(text: str) -> None:
    with pytest.raises(ValueRefusedError) as caught:
        read_reset(text)
    assert caught.value.expected.endswith("as in by_duration:P7D")


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-01T00:00:00Z", 1_793_491_200_000),
        ("2026-11-01T01:00:00+01:00", 1_793_491_200_000),
        ("2026-11-01", 1_793_491_200_000),
        ("1970-01-01T00:00:00.5", 500),
    ],
)
def test_moments_are_utc_unless_they_say_otherwise(text: str, ms: int) -> None:
    assert read_start(text) == Start("time", ms)


@pytest.mark.parametrize("text", ["none", "1969-12-31", "yesterday", "26-11-01", "-P7D"])
def test_what_is_no_start(text: str) -> None:
    with pytest.raises(ValueRefusedError) as caught:
        read_start(text)
    assert caught.value.expected == "earliest, latest, a moment as 2026-11-01T00:00:00Z, or a duration as P7D"


def test_the_first_record_may_have_this_timestamp() -> None:
    assert Start("latest").since_ms(5000) == 5000
    assert Start("ago", 2000).since_ms(5000) == 3000
    assert Start("ago", 9000).since_ms(5000) == 0
    assert Start("time", 77).since_ms(5000) == 77


def flow_of(folder: Path, text: str) -> FlowSettings:
    file = folder / "f"
    file.write_text(BASE + text, "utf-8")
    return load(file).flows[0]


@pytest.mark.parametrize(
    "key", ["a.consumer", "a->b.source.consumer", "a->b.consumer"], ids=["cluster", "source", "flow"]
)
def test_a_file_may_have_a_duration_wherever_it_may_have_a_reset(tmp_path: Path, key: str) -> None:
    flow = flow_of(tmp_path, f"{key}.auto.offset.reset = by_duration:P7D # a week\n")
    assert flow.start_of("t") == Start("ago", 7 * DAY_MS)
    assert flow.start_key("t") == "auto.offset.reset = by_duration:P7D"


def test_a_connector_may_have_it() -> None:
    for key in ("source.consumer.auto.offset.reset", "consumer.auto.offset.reset"):
        flow = build("source", {**ENDS, key: "by_duration:PT1H"}).settings
        assert flow.consumer.auto_offset_reset == Start("ago", 3_600_000)
    (problem,) = connector_problems("source", {**ENDS, "consumer.auto.offset.reset": "by_duration:-PT1H"})
    assert "consumer.auto.offset.reset: 'by_duration:-PT1H' is negative; write earliest, latest, none, or" in problem


def test_a_topic_begins_where_its_own_key_says(tmp_path: Path) -> None:
    flow = flow_of(
        tmp_path,
        "a.consumer.auto.offset.reset = latest\na->b.twinlog.start.or.* = P1D\n"
        "twinlog.start.orders = earliest\na->b.twinlog.start.audit = 2026-11-01\n",
    )
    assert [flow.start_of(topic).kind for topic in ("t", "orphans", "orders", "audit")] == [
        *("latest", "ago", "earliest", "time")
    ]
    assert flow.start_key("orphans") == "twinlog.start = P1D"
    assert flow.start_key("t") == "auto.offset.reset = latest"
    lines = [str(line) for line in explain(tmp_path / "f", "a->b.twinlog.start.orders")]
    assert len(lines) == 1
    assert lines[0].startswith("a->b: twinlog.start.orders = earliest  (")


def test_a_default_for_every_topic(tmp_path: Path) -> None:
    flow = flow_of(tmp_path, "a->b.twinlog.start = latest\na->b.twinlog.start.x =\n")
    assert [flow.start_of(topic).kind for topic in ("t", "x")] == ["latest", "earliest"]


def test_a_wrong_start_names_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        flow_of(tmp_path, "a->b.twinlog.start.x = tomorrow\na->b.twinlog.start = never\n")
    found = list(said(caught.value.problems))
    expected = "write earliest, latest, a moment as 2026-11-01T00:00:00Z, or a duration as P7D"
    assert [problem.partition("f:")[2] for problem in found] == [
        f"5: a->b.twinlog.start.x: 'tomorrow' is invalid; {expected}",
        f"6: a->b.twinlog.start: 'never' is invalid; {expected}",
    ]


RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: mirror}
spec:
  connectCluster: b
  clusters:
    - {alias: a, bootstrapServers: "a:1"}
    - {alias: b, bootstrapServers: "b:1"}
  mirrors:
    - sourceCluster: a
      targetCluster: b
      sourceConnector:
        config:
          consumer.auto.offset.reset: by_duration:PT1H
          twinlog.start.audit\\..*: P1D
          twinlog.start.[: latest
      topicsPattern: .*
"""


def test_a_resource_may_have_both(tmp_path: Path) -> None:
    file = tmp_path / "mirror.yaml"
    file.write_text(RESOURCE.replace("          twinlog.start.[: latest\n", ""), "utf-8")
    (flow,) = (flow for flow in load(file).flows if flow.enabled)
    assert [flow.start_of(topic) for topic in ("t", "audit.x")] == [Start("ago", 3_600_000), Start("ago", DAY_MS)]
    file.write_text(RESOURCE, "utf-8")
    with pytest.raises(ConfigError) as caught:
        load(file)
    (problem,) = caught.value.problems
    assert str(problem).startswith(
        f"{file}:16: spec.mirrors[0].sourceConnector.config.twinlog.start.[: an unclosed [, at character 1 of '['; "
        "write"
    )
