"""What MirrorMaker 2 does not measure: our dashboard and our alerts on our own page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from math import inf, isnan, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.promql import Scrapes
from tests.unit.worker.metrics.measured import ORDERS, REMOTE, REPORT, Scene, report
from twinlog.connect.running_connector import WorkerConnector
from twinlog.connect.worker_metrics import _flow
from twinlog.lease.progress import CopierCounters
from twinlog.model.types import GroupId
from twinlog.worker.connectors.model import ConnectorName, TargetState
from twinlog.worker.metrics.meters import SWEEP_S, FlowMeters
from twinlog.worker.run_metrics import _flow_facts
from twinlog.worker.status.families import FlowMetricFacts, seconds_to_safe_failover
from twinlog.worker.status.report import DriverReport, GroupsProgress, ProofProgress, TopicProgress

MONITORING = Path(__file__).parents[4] / "deploy" / "monitoring"
LABELS = {"job": "twinlog", "instance": "127.0.0.1:9404"}


def yaml(name: str) -> Any:
    return YAML(typ="safe").load((MONITORING / name).read_text(encoding="utf-8"))


RULES: dict[str, dict[str, Any]] = {rule["alert"]: rule for rule in yaml("alerts.yaml")["groups"][0]["rules"]}
ALERTS: dict[str, str] = {alert: rule["expr"] for alert, rule in RULES.items()}


def dashboard_queries() -> Iterator[tuple[str, str]]:
    found = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
    for panel in found["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"].replace("$flow", ".*").replace("$job", ".*")


def watched(scene: Scene, minutes: int = 10, each: Any = lambda scene: None) -> Scrapes:
    """A scrape a minute; before each of them something may happen."""
    found = Scrapes(**LABELS)
    found.now = 940.0
    continued(found, scene, minutes + 1, each)
    return found


def continued(found: Scrapes, scene: Scene, minutes: int, each: Any) -> None:
    """More scrapes."""
    for _ in range(minutes):
        each(scene)
        found.add(found.now + 60.0, scene.text())


def waits(alert: str) -> int:
    """For how many minutes a rule waits before it fires."""
    return int(RULES[alert].get("for", "0m").removesuffix("m"))


def fires(found: Scrapes, alert: str) -> bool:
    """Whether a rule fires at the last scrape: its expression has had a result at each one for as long as it waits."""
    at = found.now
    try:
        for minute in range(waits(alert) + 1):
            found.now = at - 60 * minute
            if not found.query(ALERTS[alert]):
                return False
        return True
    finally:
        found.now = at


def busy(scene: Scene) -> None:
    scene.take(report(records=30, lag=5), after_s=60.0)


@pytest.fixture(scope="module")
def scrapes() -> Scrapes:
    scene = Scene()
    scene.meters.event("gap", 1)
    return watched(scene, each=busy)


@pytest.mark.parametrize(("title", "query"), list(dashboard_queries()))
def test_each_query_of_our_dashboard_finds_a_series(scrapes: Scrapes, title: str, query: str) -> None:
    assert scrapes.query(query), f"{title}: {query}"


@pytest.fixture(scope="module")
def well() -> Scrapes:
    return watched(Scene(), each=busy)


@pytest.mark.parametrize("alert", sorted(ALERTS))
def test_no_alert_fires_while_all_is_well(well: Scrapes, alert: str) -> None:
    assert well.query(ALERTS[alert]) == {}


def changed(**values: Any) -> Scene:
    scene = Scene()
    scene.report = replace(REPORT, **values)
    return scene


def falling_behind(scene: Scene) -> None:
    busy(scene)
    scene.report = replace(scene.report, lag=scene.report.lag + 10, oldest_ms=scene.report.at_ms - 90_000)


def event_of(kind: str) -> Any:
    def step(scene: Scene) -> None:
        busy(scene)
        if scene.now > 300:
            scene.meters.event(kind, 1)

    return step


def differs(scene: Scene) -> None:
    busy(scene)
    if scene.now > 300:
        found = replace(report(records=1), counters=CopierCounters(differences={"changed": 1}))
        scene.take(found)


def restarts(scene: Scene) -> None:
    busy(scene)
    scene.restarts += 1


def dies(scene: Scene) -> None:
    """The process is another one at each scrape, and counts from 0."""
    busy(scene)
    scene.started_s += 60.0


def silent(scene: Scene) -> None:
    scene.heard_s += 60.0


def stays(**values: Any) -> Any:
    """Everything goes on but for these values."""

    def step(scene: Scene) -> None:
        busy(scene)
        for name, value in values.items():
            setattr(scene, name, value)

    return step


def reports(**values: Any) -> Any:
    """Everything goes on, and the process says so of itself."""

    def step(scene: Scene) -> None:
        busy(scene)
        scene.report = replace(scene.report, **values)

    return step


LATE = GroupsProgress(1, 0, True, REPORT.at_ms - 400_000, True, REPORT.at_ms)
FAULTS: dict[str, Any] = {
    "TwinlogFlowWithoutLeader": stays(leads=False),
    "TwinlogFlowFailed": stays(failed=True),
    "TwinlogFlowNotCopying": reports(state="waiting", lag=-1, unknown=1),
    "TwinlogFlowStopped": lambda scene: reports(lag=5, records=scene.report.records)(scene),
    "TwinlogPartitionsStuck": stays(stuck=3),
    "TwinlogPartitionsHeld": reports(held=2, held_by_reason=(("gap", 2),)),
    "TwinlogTopicsMissing": reports(missing=2),
    "TwinlogLagGrows": falling_behind,
    "TwinlogLagUnknown": reports(unknown=2),
    "TwinlogNoReport": silent,
    "TwinlogGap": event_of("gap"),
    "TwinlogForeignWriter": event_of("foreign"),
    "TwinlogProofDifference": differs,
    "TwinlogProofBehind": reports(proof=ProofProgress(1, 90.0)),
    "TwinlogNotSafeToFailOver": reports(lag=5, eta_s=0.0, oldest_ms=REPORT.at_ms - 90_000),
    "TwinlogGroupSyncOld": reports(groups=LATE),
    "TwinlogStandbyMissing": stays(ready=0),
    "TwinlogProcessRestarts": dies,
    "TwinlogSparkRestarts": restarts,
}
"""What goes wrong before each scrape."""


@pytest.mark.parametrize("alert", sorted(set(ALERTS) - {"TwinlogDown"}))
def test_each_alert_fires_for_its_reason_once_that_lasts_and_ends_with_it(alert: str) -> None:
    scene = Scene()
    found = watched(scene, 1, each=busy)
    well = scene.report
    continued(found, scene, waits(alert) + 11, FAULTS[alert])
    assert fires(found, alert)
    scene.leads, scene.failed, scene.stuck, scene.ready, scene.heard_s = True, False, 0, 1, 1.0
    scene.report = replace(well, records=scene.report.records)
    # What happened an hour ago is told no more.
    found.now += 3600
    continued(found, scene, waits(alert) + 2, busy)
    assert not fires(found, alert)


@pytest.mark.parametrize("alert", sorted(alert for alert, rule in RULES.items() if "for" in rule))
def test_no_alert_that_waits_fires_for_a_moment(alert: str) -> None:
    scene = Scene()
    found = watched(scene, waits(alert), each=busy)
    continued(found, scene, 1, FAULTS.get(alert, busy))
    assert not fires(found, alert)


def test_positions_of_groups_may_be_as_old_as_the_flow_is_asked_to_let_them() -> None:
    rare = replace(LATE, checkpoints_every_s=600.0)
    found = watched(Scene(), 16, each=reports(groups=rare))
    assert not fires(found, "TwinlogGroupSyncOld")
    assert not fires(found, "TwinlogNotSafeToFailOver")


@pytest.mark.parametrize("unsafe", [{"inexact": 1}, {"ahead": 1}])
def test_groups_that_would_repeat_or_skip_fire_and_moved_groups_do_not(unsafe: dict[str, int]) -> None:
    well = GroupsProgress(2, 0, True, REPORT.at_ms, True, REPORT.at_ms)
    assert fires(watched(Scene(), 16, each=reports(groups=replace(well, **unsafe))), "TwinlogNotSafeToFailOver")
    assert not fires(watched(Scene(), 16, each=reports(groups=well)), "TwinlogNotSafeToFailOver")


def test_a_gap_that_was_met_before_the_first_scrape_fires() -> None:
    scene = Scene()
    scene.meters.event("gap", 1)
    scene.meters.event("foreign", 1)
    found = watched(scene, each=busy)
    assert found.query(ALERTS["TwinlogGap"])
    assert found.query(ALERTS["TwinlogForeignWriter"])


def test_a_flow_that_failed_in_one_process_and_runs_in_another_has_not_failed() -> None:
    scene = Scene()
    scene.failed = True
    found = watched(scene, each=busy)
    found.put(found.now, "twinlog_flow_leads", 1.0, flow="east->west", instance="other")
    assert found.query(ALERTS["TwinlogFlowFailed"]) == {}
    assert found.query(ALERTS["TwinlogFlowWithoutLeader"]) == {}
    assert 'twinlog_flow_leads{flow="east->west"} 0.0' in scene.text()
    assert 'twinlog_flow_state{flow="east->west",state="failed"} 1.0' in scene.text()
    assert 'twinlog_gaps_total{flow="east->west"} 0.0' in scene.text(), "an alert needs a 0 before the 1"


@pytest.mark.parametrize(
    ("groups", "fires"),
    [
        (GroupsProgress(syncs=True), True),
        (GroupsProgress(1, 0, True, REPORT.at_ms, True, None), True),
        (GroupsProgress(1, 0, True, REPORT.at_ms, False, None), False),
    ],
)
def test_groups_that_were_never_followed_fire_too(groups: GroupsProgress, fires: bool) -> None:
    assert bool(watched(changed(groups=groups)).query(ALERTS["TwinlogGroupSyncOld"])) is fires


def test_a_lag_of_records_on_their_way_does_not_fire() -> None:
    scene = changed(lag=5, eta_s=None, oldest_ms=REPORT.at_ms - 2_000)
    assert watched(scene, each=busy).query(ALERTS["TwinlogNotSafeToFailOver"]) == {}


def test_a_worker_without_connectors_is_there() -> None:
    found = Scrapes(**LABELS)
    found.put(1000.0, "twinlog_spark_restarts_total", 0.0)
    assert found.query(ALERTS["TwinlogDown"]) == {}


def test_no_other_worker_stands_by_for_a_connector() -> None:
    scene = changed()
    scene.ready = None
    assert watched(scene, each=busy).query(ALERTS["TwinlogStandbyMissing"]) == {}


def test_groups_and_partitions_that_went_have_no_meters() -> None:
    scene = Scene()
    scene.take(report(records=1))
    scene.checkpoint()
    scene.meters.checkpointed([(GroupId("new"), REMOTE)], [GroupId("new")], 1.0, scene.now + SWEEP_S)
    assert [group for group, _ in scene.meters.groups] == ["new"]
    assert list(scene.meters.parts) == [ORDERS]
    scene.meters.retain_partitions(())
    assert scene.meters.parts == {}


def test_nothing_that_is_scraped_fires_too() -> None:
    assert Scrapes(**LABELS).query(ALERTS["TwinlogDown"])


def test_each_rule_says_what_to_do() -> None:
    for rule in yaml("alerts.yaml")["groups"][0]["rules"]:
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"].keys() == {"message_id", "runbook_url", "summary", "description"}


def test_latency_is_a_histogram_of_records() -> None:
    scene = Scene()
    scene.take(report(records=10, latency_ms=20))
    scene.take(report(records=30, latency_ms=400))
    found = Scrapes()
    found.add(1.0, scene.text())
    name = "twinlog_record_latency_seconds"
    assert found.query(f'{name}_bucket{{le="0.025"}}') == {(("flow", "east->west"), ("le", "0.025")): 10.0}
    assert list(found.query(f'sum({name}_bucket{{le="+Inf"}})').values()) == [40.0]
    assert list(found.query(f"{name}_count").values()) == [40.0]
    assert list(found.query(f"{name}_sum").values()) == [pytest.approx(10 * 0.02 + 30 * 0.4)]


GROUPS = GroupsProgress(followed=2, checkpoints_ms=REPORT.at_ms, syncs=True, sync_ms=REPORT.at_ms)

RARELY = replace(GROUPS, checkpoints_every_s=60.0, sync_every_s=300.0)


@pytest.mark.parametrize(
    ("report_", "seconds"),
    [
        (replace(REPORT, groups=None), 0.0),
        (replace(REPORT, groups=GROUPS), 0.0),
        (replace(REPORT, lag=10, eta_s=4.0, groups=GROUPS), 4.0),
        (replace(REPORT, lag=10, eta_s=None), inf),
        (replace(REPORT, lag=-1), nan),
        (replace(REPORT, unknown=1), nan),
        (replace(REPORT, lag_age_s=60.0), nan),
        (replace(REPORT, groups=replace(GROUPS, inexact=1)), inf),
        (replace(REPORT, groups=replace(GROUPS, ahead=1)), inf),
        (replace(REPORT, groups=replace(GROUPS, before_start=1)), inf),
        (replace(REPORT, groups=replace(GROUPS, before_start=None)), nan),
        (replace(REPORT, groups=replace(GROUPS, trouble="refused")), inf),
        (replace(REPORT, groups=replace(GROUPS, checkpoints_ms=None)), nan),
        (replace(REPORT, groups=replace(GROUPS, checkpoints_ms=REPORT.at_ms - 60_000)), nan),
        (replace(REPORT, groups=replace(RARELY, checkpoints_ms=REPORT.at_ms - 60_000)), 0.0),
        (replace(REPORT, groups=replace(RARELY, checkpoints_ms=REPORT.at_ms - 95_000)), nan),
        (replace(REPORT, groups=replace(RARELY, sync_ms=REPORT.at_ms - 300_000)), 0.0),
        (replace(REPORT, groups=replace(RARELY, sync_ms=REPORT.at_ms - 335_000)), nan),
        (replace(REPORT, groups=replace(GROUPS, syncs=False, sync_ms=None)), 0.0),
    ],
)
def test_it_is_safe_once_all_is_there_and_groups_stand_where_they_would_go_on(
    report_: DriverReport, seconds: float
) -> None:
    found = seconds_to_safe_failover(report_)
    assert found == seconds or (isnan(found) and isnan(seconds))


DOCS = Path(__file__).parents[4] / "docs" / "metrics.md"


def test_the_page_of_the_documentation_names_every_metric_and_no_other() -> None:
    scene = Scene()
    scene.take(report(records=1))
    scene.meters.event("gap", 1)
    scene.checkpoint()
    families = set(re.findall(r"^# TYPE (\S+)", scene.text(), re.MULTILINE))
    named = set(re.findall(r"`((?:kafka|twinlog|jvm|process)_\w+)`", DOCS.read_text(encoding="utf-8")))
    assert named - families == set()
    assert families - named == set()


def test_the_page_of_the_documentation_leads_from_every_alert_to_its_next_steps() -> None:
    page = DOCS.read_text(encoding="utf-8")
    for name, rule in RULES.items():
        rows = re.findall(rf"^\| {rule['labels']['severity']} \|(.*)$", page, re.MULTILINE)
        steps = rule["annotations"]["runbook_url"].removeprefix("docs/")
        assert any(f"[`{name}`]({steps})" in row for row in rows), name


def test_the_help_of_followed_groups_names_the_further_groups_of_the_command() -> None:
    (line,) = re.findall(r"^# HELP twinlog_groups_followed (.*)$", changed(groups=GROUPS).text(), re.MULTILINE)
    assert "`twinlog groups` also has groups with positions only in copies from the target" in line


def test_an_unknown_lag_has_no_age() -> None:
    scene = changed(lag=-1, lag_bytes=None)
    assert 'twinlog_lag_age_seconds{flow="east->west"} NaN' in scene.text()


def test_a_topic_whose_lag_is_unknown_has_no_size_and_no_age() -> None:
    page = changed(lag=0, lag_bytes=None, unknown=1, topics=(TopicProgress("orders", 1, unknown=1),)).text()
    for name in ("topic_lag_records", "topic_lag_bytes", "topic_lag_seconds"):
        assert f'twinlog_{name}{{flow="east->west",topic="orders"}} NaN' in page, name
    for name in ("lag_bytes", "lag_seconds"):
        assert f'twinlog_{name}{{flow="east->west"}} NaN' in page, name


def test_what_a_transform_left_out_and_routed_is_counted_and_skipped_records_are_errors_of_the_task() -> None:
    scene = Scene()
    for _ in range(2):
        made = report(10)
        counters = replace(made.counters, dropped=3, failed=2, routed=4)
        scene.meters.add_report(replace(made, counters=counters), 1.0)
    page = scene.text()
    for name, count in (("dropped", 6), ("failed", 4), ("routed", 8)):
        assert f'twinlog_records_{name}_total{{flow="east->west"}} {count}.0' in page


@pytest.mark.parametrize(("flow", "failure"), [(None, None), (None, "refused"), (object(), "no permission")])
def test_a_flow_that_does_not_run_here_has_events_only(flow: object, failure: str | None) -> None:
    meters = FlowMeters()
    place: Any = SimpleNamespace(
        flow=flow,
        failure=failure,
        settings=SimpleNamespace(name="east->west"),
        flow_status=SimpleNamespace(meters=meters),
    )
    found = _flow_facts(place)
    assert found == FlowMetricFacts("east->west", leads=False, meters=meters, failed=failure is not None)


@pytest.mark.parametrize(
    ("target", "failed"), [(TargetState.STARTED, True), (TargetState.PAUSED, True), (TargetState.STOPPED, False)]
)
def test_a_connector_that_cannot_begin_has_failed_unless_it_is_to_be_stopped(target: TargetState, failed: bool) -> None:
    facts = _flow(WorkerConnector(ConnectorName("copy"), None, target, refused="topics: not known"))
    assert (facts is not None and facts.failed) is failed
    assert facts is None or (facts.flow, facts.leads) == ("copy", False)
