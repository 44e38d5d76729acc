"""The file of a switchover is compared with the file of the process that runs the flow."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.ops.switchover.reported import reported_target
from tests.unit.ops.switchover.test_preflight import GOOD, problems
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.model.types import TopicName
from twinlog.ops.status.last_report import LastReportReader
from twinlog.ops.status.state import STALE_S
from twinlog.ops.switchover.flow_process import FlowProcesses
from twinlog.worker.status.report import DriverReport, TopicProgress

FLOW = flow("s", "w", "default")
NOW_MS = 1_000_000
RUNS = DriverReport(
    "s->w", "host-1", NOW_MS, 0, "running", group=FLOW.group_id, topics=(TopicProgress("orders"), TopicProgress("pays"))
)
ELSEWHERE = replace(RUNS, process="host-2", group="s-mm2-twinlog")
PAYS = TopicName("pays")


def processes(own: DriverReport | None = None, other: DriverReport | None = None, wave: str = "") -> FlowProcesses:
    return FlowProcesses(own, other, FLOW.group_id, wave)


def mismatches(found: FlowProcesses, *, runs: bool | None = True) -> list[str]:
    return list(found.mismatches([PAYS], runs=runs))


def test_a_process_in_another_group_is_named() -> None:
    (found,) = mismatches(processes(other=ELSEWHERE), runs=False)
    assert found == (
        f"process host-2 runs flow s->w in group s-mm2-twinlog, and FILE has group {FLOW.group_id}: give the file of "
        "that process"
    )
    # MirrorMaker 2 runs in the group of the file, or the process of the file reports, too.
    assert mismatches(processes(other=ELSEWHERE)) == []
    assert mismatches(processes(replace(RUNS, topics=()), ELSEWHERE), runs=False) == []


def test_topics_of_the_process_that_the_file_leaves_out_are_named() -> None:
    (found,) = mismatches(processes(RUNS))
    assert found.startswith("pays: process host-1 copies it, and FILE leaves producers there behind: give the file of")
    # A wave moves a part.
    assert mismatches(processes(RUNS, wave="pays")) == []
    assert mismatches(processes(replace(RUNS, topics=(TopicProgress("orders"),)))) == []


def test_a_mismatch_is_an_obstacle_in_place_of_the_missing_process() -> None:
    facts = replace(GOOD, runs=False, rate=None)
    assert any("start the flow" in one for one in problems(facts))
    (found,) = problems(replace(facts, processes=processes(other=ELSEWHERE)))
    assert found.endswith("give the file of that process")
    (found,) = problems(replace(GOOD, staying=[PAYS], processes=processes(RUNS)))
    assert found.startswith("pays: process host-1 copies it")


def test_only_fresh_reports_of_running_processes_count() -> None:
    with reported_target() as target:
        reader = LastReportReader(FLOW, target.admin)
        for report in (RUNS, ELSEWHERE):
            target.report(report)
            assert reader.read_report() == RUNS
        assert FlowProcesses.at(reader, NOW_MS, FLOW) == processes(RUNS, ELSEWHERE)
        late = LastReportReader(FLOW, target.admin)
        assert late.read_report() == RUNS, "the later report of another group leaves it readable"
        assert FlowProcesses.at(late, NOW_MS, FLOW) == processes(RUNS, ELSEWHERE)
        assert FlowProcesses.at(reader, NOW_MS + int(STALE_S * 1000), FLOW) == processes()
