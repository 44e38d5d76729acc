"""The file of a switchover is compared with the file of the process that runs the flow."""

from __future__ import annotations

from dataclasses import replace

from harness.virtual.cluster import VirtualCluster
from harness.virtual.loop import VirtualLoop, virtual_loop
from tests.unit.ops.switchover.test_preflight import GOOD, problems
from tests.unit.worker.topics.test_topic_conflicts import flow
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.kafka.record.builder import encode_batch, record_body
from twinlog.kafka.record.stamp import stamp
from twinlog.model.types import TopicName
from twinlog.ops.status.last_report import LastReportReader
from twinlog.ops.status.state import STALE_S
from twinlog.ops.switchover.flow_process import FlowProcesses
from twinlog.settings.flow import ClientSettings
from twinlog.worker.status.report import DriverReport, TopicProgress, encode_report

FLOW = flow("s", "w", "default")
NOW_MS = 1_000_000
RUNS = DriverReport(
    "s->w", "host-1", NOW_MS, 0, "running", group=FLOW.group_id, topics=(TopicProgress("orders"), TopicProgress("pays"))
)
ELSEWHERE = replace(RUNS, process="host-2", group="s-mm2-twinlog")
PAYS = TopicName("pays")
PROGRESS = "mm2-twinlog-progress.s.internal"


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
    with virtual_loop(1) as loop:
        target = VirtualCluster(loop, "w")
        target.create(PROGRESS)
        admin = ClusterAdmin("w", ClientSettings(target.bootstrap), VirtualLoop(loop.world))
        try:
            admin.connect(5.0)
            reader = LastReportReader(FLOW, admin)
            for report in (RUNS, ELSEWHERE):
                batch = encode_batch([(NOW_MS, record_body(b"driver s->w", encode_report(report, 100_000), ()))])
                stamp(batch, -1, -1, -1)
                target.log(PROGRESS).append(bytes(batch))
                target.news()
                assert reader.read_report() == RUNS
            assert FlowProcesses.at(reader, NOW_MS, FLOW) == processes(RUNS, ELSEWHERE)
            assert FlowProcesses.at(reader, NOW_MS + int(STALE_S * 1000), FLOW) == processes()
        finally:
            admin.close()
