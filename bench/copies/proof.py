"""The cost of the proof of equality: the same copy and the same even load by turns, with the proof and without it, and
the lag of the prover behind the load."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.copies.copying import FIRST_RECORD_S, CopyFigures, measure_by_turns
from bench.items.kinds import ProofItem
from bench.stage.meter import MB, cpu_of, wait_calm
from bench.stage.wire import EndWatch
from bench.systems import TARGET, Setup, System
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.jvm.tools import PRODUCER_PERF, run_tool
from harness.topics import create_topic, delete_topic, delete_topics_of_users, topics
from twinlog.config import load
from twinlog.kafka.admin.cluster import ClusterAdmin
from twinlog.model.types import TopicName, TopicPartition
from twinlog.ops.proven_ranges import ProvenRangesReader

PROOF = {"{source}->{target}.twinlog.proof": "true"}
EVERY_S = 0.5
WARM_S = 5.0
"""The first seconds of a load are left out."""

LATE_S = 60.0


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """The CPU of twinlog and both brokers for a load, from its first record to the last copy."""

    load_mb_per_s: float
    all_cpu_s: float


@dataclass(frozen=True, slots=True)
class LagFigures(LoadFigures):
    """Also the lag of the prover under the load: the median and the most of all looks, as reported once a second."""

    proof_lag_s: float
    proof_lag_most_s: float
    looks: int


@dataclass(frozen=True, slots=True)
class ProofFigures:
    """Medians of the runs, and the ratios of those with the proof to those without; `all` is with both brokers."""

    records_per_s_unproven: float
    records_per_s_proven: float
    proven_ratio: float
    cpu_s_unproven: float
    cpu_s_proven: float
    proven_cpu_ratio: float
    all_cpu_s_unproven: float
    all_cpu_s_proven: float
    proven_all_cpu_ratio: float
    load_mb_per_s: float
    load_all_cpu_s_unproven: float
    load_all_cpu_s_proven: float
    load_all_cpu_ratio: float
    proof_lag_s: float
    proof_lag_most_s: float


def measure_proof(
    item: ProofItem,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    talk: Callable[[str], Callable[[str], None]],
) -> tuple[ProofFigures, dict[str, list[dict[str, object]]]]:
    """Copy the filled topic `item.copy.name` so many times without and with the proof, by turns. Then copy as many
    loads in both ways, by turns."""
    setups = {"unproven": Setup("twinlog", item.copy.name), "proven": Setup("twinlog", item.copy.name, PROOF)}
    runs = measure_by_turns(item, setups, source, target, work, talk)
    lags: list[LagFigures] = []
    plain: list[LoadFigures] = []
    for number in range(item.rounds):
        for proves in (False, True) if number % 2 else (True, False):
            name = f"{item.copy.name}-{'proven' if proves else 'plain'}-load-{number}"
            found = _measure_load(item, name, source, target, work, talk("load"), proves=proves)
            if isinstance(found, LagFigures):
                lags.append(found)
            else:
                plain.append(found)
    return figures_of(runs["unproven"], runs["proven"], plain, lags), {
        **{way: [asdict(one) for one in many] for way, many in runs.items()},
        "plain load": [asdict(one) for one in plain],
        "load": [asdict(one) for one in lags],
    }


def figures_of(
    unproven: list[CopyFigures], proven: list[CopyFigures], plain: list[LoadFigures], lags: list[LagFigures]
) -> ProofFigures:
    """What the copies and the loads came to, each without and with the proof."""
    both = (unproven, proven)
    rates = [median(one.records_per_s for one in many) for many in both]
    cpu = [median(one.cpu_s for one in many) for many in both]
    everything = [median(one.cpu_s + one.brokers_cpu_s for one in many) for many in both]
    loads = [median(one.all_cpu_s for one in plain), median(one.all_cpu_s for one in lags)]
    return ProofFigures(
        records_per_s_unproven=rates[0],
        records_per_s_proven=rates[1],
        proven_ratio=rates[1] / rates[0],
        cpu_s_unproven=cpu[0],
        cpu_s_proven=cpu[1],
        proven_cpu_ratio=cpu[1] / cpu[0],
        all_cpu_s_unproven=everything[0],
        all_cpu_s_proven=everything[1],
        proven_all_cpu_ratio=everything[1] / everything[0],
        load_mb_per_s=median(one.load_mb_per_s for one in lags),
        load_all_cpu_s_unproven=loads[0],
        load_all_cpu_s_proven=loads[1],
        load_all_cpu_ratio=loads[1] / loads[0],
        proof_lag_s=median(one.proof_lag_s for one in lags),
        proof_lag_most_s=median(one.proof_lag_most_s for one in lags),
    )


def _measure_load(
    item: ProofItem,
    topic: str,
    source: KafkaCluster,
    target: KafkaCluster,
    work: Path,
    say: Callable[[str], None],
    *,
    proves: bool,
) -> LoadFigures:
    """Write `item.load_mb_per_s` to a new topic for some seconds, and look at the prover meanwhile if the flow proves.

    Raises HarnessError if all is not copied, and proven, a minute later.
    """
    create_topic(source, topic, item.copy.partitions)
    parts = [TopicPartition(TopicName(topic), partition) for partition in range(item.copy.partitions)]
    setup = Setup("twinlog", topic, PROOF if proves else {})
    wait_calm()
    watch = EndWatch(target.bootstrap, setup.remote, item.copy.partitions)
    lags: list[float] = []
    with System(setup, source, target, work, memory=False) as system:
        (flow,) = load(work / f"twinlog-{topic}" / "twinlog.properties", [TARGET]).flows
        admin = ClusterAdmin(flow.target, flow.target_admin.client)
        try:
            admin.connect(LATE_S)
            reader = ProvenRangesReader(flow, admin)
            _wait(lambda: setup.remote in topics(target), system, FIRST_RECORD_S, "no copy began")
            if proves:
                _wait(lambda: len(reader.read_proven(parts)) == len(parts), system, FIRST_RECORD_S, "no proof began")
            time.sleep(WARM_S)
            took: list[float] = []
            writer = threading.Thread(target=lambda: took.append(_write(item, source, topic, work)), daemon=True)

            def cpu_s() -> float:
                system.meter.discover()
                return system.meter.cpu_s() + cpu_of(source.pids) + cpu_of(target.pids)

            begun, before = time.monotonic(), cpu_s()
            writer.start()
            while writer.is_alive():
                time.sleep(EVERY_S)
                system.require_alive()
                # The loads without the proof are looked at as often.
                found = reader.read_proven(parts)
                if proves and time.monotonic() - begun > WARM_S:
                    lags.append(max(one.lag_ms for one in found.values()) / 1000)
            if not took or (proves and not lags):
                raise HarnessError(f"{topic}: the load ended early")
            _wait(lambda: watch.total() >= item.load_records, system, LATE_S, f"{topic} is not copied to its end")
            used = cpu_s() - before

            def proven() -> bool:
                known = reader.read_proven(parts).values()
                return not proves or sum(int(one.source) for one in known) >= item.load_records

            _wait(proven, system, LATE_S, f"{topic} is not proven to its end")
        finally:
            admin.close()
            watch.close()
    delete_topics_of_users(target)
    delete_topic(source, topic)
    rate = item.load_records * item.copy.record_bytes / took[0] / MB
    if not proves:
        say(f"{rate:,.1f} MB/s without the proof, {used:.1f} s CPU with both brokers")
        return LoadFigures(rate, used)
    most = max(lags)
    say(f"{rate:,.1f} MB/s, {used:.1f} s CPU with both brokers, the proof is at most {most:.2f} s behind")
    return LagFigures(rate, used, median(lags), most, len(lags))


def _wait(condition: Callable[[], bool], system: System, most_s: float, why: str) -> None:
    until = time.monotonic() + most_s
    while not condition():
        system.require_alive()
        if time.monotonic() > until:
            raise system.failed(f"{why} within {most_s:g} s")
        time.sleep(EVERY_S)


def _write(item: ProofItem, source: KafkaCluster, topic: str, work: Path) -> float:
    """Write the load; returns the seconds that it took."""
    begun = time.monotonic()
    run_tool(
        PRODUCER_PERF,
        [
            *("--bootstrap-server", source.bootstrap, "--topic", topic),
            *("--num-records", str(item.load_records), "--throughput", str(item.load_per_s)),
            *("--payload-file", work / f"payload-{item.copy.record_bytes}.txt", "--reporting-interval", "3600000"),
            *("--command-property", "acks=1", "batch.size=65536", "linger.ms=5"),
        ],
        deadline_s=item.load_seconds * 5 + LATE_S,
        heap="512m",
    )
    return time.monotonic() - begun
