"""Runs the chosen items on two fresh clusters, one system at a time."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from bench.connect.figures import ConnectFigures, measure_connect, prepare_records
from bench.copies.all_systems import AllSystems
from bench.copies.copying import CopyFigures, measure_copy
from bench.copies.limit import LimitFigures, measure_limit
from bench.copies.proof import measure_proof
from bench.copies.verify import measure_verify
from bench.copies.watched import measure_watched
from bench.flows.driver import make_topics, measure_driver
from bench.flows.latency import LatencyFigures, measure_latency
from bench.flows.low_rate import PREFIX, LowRateFigures, measure_low_rate
from bench.flows.many_topics import ManyTopics
from bench.flows.scale import PROPERTIES, ScaleFigures, measure_scale, prepare
from bench.items.catalogue import NAMES, RAW_SHARE, START_ROUNDS, START_S, STARTS
from bench.items.kinds import (
    ConnectItem,
    CopyItem,
    DriverItem,
    ExecutorItem,
    FramesItem,
    Item,
    LatencyItem,
    LowRateItem,
    ProofItem,
    RepeatedItem,
    ScaleItem,
    VerifyItem,
    WatchedItem,
)
from bench.reports.machine import code, describe, require_disk
from bench.reports.notes import notes
from bench.reports.report import Document
from bench.reports.results import Line, alone, compare, medians
from bench.reports.run_file import NAME as RUN_FILE
from bench.reports.run_file import RunFile
from bench.spark.executors import measure_executors
from bench.spark.frames import measure_frames
from bench.stage.load import fill, fill_loud
from bench.stage.pair import AT_ONCE_CONFIG, BROKER_CONFIG, BROKER_HEAP, clusters, warm, warm_up
from bench.stage.progress import say, talking
from bench.systems import (
    COMMON,
    EAGER,
    MM2_HEAP,
    MM2_TUNING,
    QUERY,
    TITLES,
    TRANSFORM,
    MirrorName,
    Setup,
    SystemName,
    prepare_twinlog,
)
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.topics import delete_topic
from harness.traffic.relay import Distance
from harness.traffic.request_counter import counter_jar

SPARE_BYTES = 2_000_000_000
EAGER_S = 60
SYSTEMS: tuple[MirrorName, ...] = ("mm2", "twinlog")
"""The systems of all items but copies with goals."""


@dataclass(frozen=True, slots=True)
class Options:
    """`systems` copy the items with goals; `brokers` is the number of each cluster's brokers, and of replicas.

    `partial` says that systems, brokers, scale or times are not those of a whole run.
    """

    systems: tuple[SystemName, ...]
    brokers: int
    scale: float
    repeat: int
    latency_s: int
    partial: bool
    work_dir: Path
    keep: bool
    resume: bool


def run(items: list[Item], options: Options) -> Document:
    """Measure everything, or what an earlier start has not measured; returns what came out.

    Everything started is gone when this returns or raises, and the measured items are in a file then. Raises
    HarnessError if `options.resume` finds no run of the same options.
    """
    place = options.work_dir / RUN_FILE
    settings = {"machine": asdict(describe()), "code": code(), **_settings(options)}
    file = RunFile.resume(place, settings) if options.resume else RunFile.begin(place, settings)
    items = [item for item in items if item.name not in file.names]
    if file.names:
        say(f"{len(file.names)} items are measured already, {len(items)} are left")
    prepare_twinlog(say)
    copies = [*items, *(item.copy for item in items if isinstance(item, RepeatedItem))]
    largest = max((item.payload_bytes for item in copies if isinstance(item, CopyItem)), default=0)
    # The source's topic, one copy, and what the broker has not removed yet of the copy before.
    require_disk(options.work_dir, 3 * options.brokers * largest + SPARE_BYTES)
    options.work_dir.mkdir(parents=True, exist_ok=True)
    with _work(options) as work:
        paired = [item for item in items if isinstance(item, CopyItem | LatencyItem)]
        far = [item for item in paired if isinstance(item, CopyItem) and item.far is not None]
        at_once = [item for item in paired if isinstance(item, CopyItem) and item.joins_at_once]
        near = [item for item in paired if item not in (*far, *at_once)]
        _on_one_pair(near, options, work / "pair", None, file)
        _on_one_pair(at_once, options, work / "at-once-pair", None, file, AT_ONCE_CONFIG)
        _on_one_pair(far, options, work / "far-pair", Distance(), file)
        # The other items have clusters of their own.
        for item in items:
            if item not in paired:
                began = time.monotonic()
                file.add(_ON_OWN_CLUSTERS[type(item)](item, work / item.name), (time.monotonic() - began) / 60)
    file.document["partial"] = options.partial or set(file.names) != set(NAMES)
    return file.sort(NAMES)


def _on_one_pair(
    items: Sequence[CopyItem | LatencyItem],
    options: Options,
    work: Path,
    distance: Distance | None,
    file: RunFile,
    config: Mapping[str, str] = BROKER_CONFIG,
) -> None:
    """The items that share two clusters, and the checks of systems; with a `distance` each cluster has a relay."""
    if not items:
        return
    with_peers = any(isinstance(item, CopyItem) and item.goals for item in items)
    nodes, counted = options.brokers, with_peers and _can_count()
    with clusters(work, nodes=nodes, counted=counted, distance=distance, config=config) as (source, target):
        if any(isinstance(item, CopyItem) for item in items):
            warm_up(source, target, work, options.scale)
        everybody = AllSystems(options.systems, options.brokers, options.repeat, source, target, work)
        if with_peers:
            file.note("checks", everybody.check())
        for item in items:
            began, number = time.monotonic(), NAMES.index(item.name)
            if item in STARTS:
                found = _start(item, options, source, target, work)
            elif isinstance(item, CopyItem) and item.goals:
                found = everybody.copy(item, number)
            elif isinstance(item, CopyItem):
                found = _copy(item, number, options, source, target, work)
            else:
                found = _latency(item, options, source, target, work)
            file.add(found, (time.monotonic() - began) / 60)


def _can_count() -> bool:
    try:
        counter_jar()
    except HarnessError as error:
        say(f"requests are not counted: {error}")
        return False
    return True


@contextlib.contextmanager
def _work(options: Options) -> Iterator[Path]:
    work = Path(tempfile.mkdtemp(prefix="run-", dir=options.work_dir))
    try:
        yield work
    finally:
        if options.keep:
            say(f"logs and data are kept in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)
            with contextlib.suppress(OSError):
                options.work_dir.rmdir()


def _copy(
    item: CopyItem, number: int, options: Options, source: KafkaCluster, target: KafkaCluster, work: Path
) -> dict[str, object]:
    shape = fill_loud(item, source, work)
    beside_raw = item.transform and not item.sql
    runs: dict[str, list[CopyFigures]] = {"mm2": [], "twinlog": [], **({"raw": []} if beside_raw else {})}
    limits: list[LimitFigures] = []
    first: list[MirrorName] = []
    warm(item, source, target, work)
    for round_ in range(options.repeat):
        # Who goes first changes, because the brokers and the disk are never twice the same.
        order = SYSTEMS if (number + round_) % 2 == 0 else SYSTEMS[::-1]
        first.append(order[0])
        for system in order:
            talk = talking(f"{item.name}: {TITLES[system]}")
            changes = QUERY if item.sql and system == "twinlog" else TRANSFORM[system] if item.transform else {}
            setup = Setup(system, item.name, changes, far=item.far, copies=options.brokers)
            runs[system].append(measure_copy(item, setup, source, target, work, talk))
        if beside_raw:
            talk = talking(f"{item.name}: twinlog without the transform")
            setup = Setup("twinlog", item.name, copies=options.brokers)
            runs["raw"].append(measure_copy(item, setup, source, target, work, talk))
        os.sync()
        talk = talking(f"{item.name}: the brokers alone")
        limits.append(measure_limit(item, item.name, source, target, talk))
    delete_topic(source, item.name)
    limit = medians(limits)
    lines = compare(medians(runs["mm2"]), medians(runs["twinlog"]), item.wanted, limit)
    if beside_raw:
        raw, changed = (medians(runs[name])["records_per_s"] for name in ("raw", "twinlog"))
        share = changed / raw
        lines.insert(1, Line("raw_records_per_s", raw, changed, share, str(RAW_SHARE), RAW_SHARE.met(share)))
    return {
        **_found(item, lines, {system: [asdict(one) for one in many] for system, many in runs.items()}),
        "log": asdict(shape),
        "first": first,
        "limit": limit,
    }


def _start(
    item: CopyItem, options: Options, source: KafkaCluster, target: KafkaCluster, work: Path
) -> dict[str, object]:
    """The start alone, several times; twinlog also without what `twinlog warm-up` prepares."""
    fill(source, item.name, item, work)
    copies = options.brokers
    setups: dict[str, Setup] = {system: Setup(system, item.name, copies=copies, bridge=True) for system in SYSTEMS}
    setups["unprepared"] = Setup("twinlog", item.name, prepared=False, copies=copies, bridge=True)
    runs: dict[str, list[CopyFigures]] = {name: [] for name in setups}
    for _ in range(START_ROUNDS):
        for name, setup in setups.items():
            talk = talking(f"{item.name}: {TITLES[setup.system]}{'' if setup.prepared else ' without its warm-up'}")
            runs[name].append(measure_copy(item, setup, source, target, work, talk))
    delete_topic(source, item.name)
    mm2, twinlog, unprepared = (medians(runs[name]) for name in setups)
    lines = [line for line in compare(mm2, twinlog, item.wanted, None) if line.figure == "start_s"]
    lines.append(Line("start_at_most_s", None, twinlog["start_s"], None, str(START_S), START_S.met(twinlog["start_s"])))
    lines.append(Line("start_unprepared_s", None, unprepared["start_s"], unprepared["start_s"] / mm2["start_s"]))
    return _found(item, lines, {name: [asdict(one) for one in many] for name, many in runs.items()})


def _latency(
    item: LatencyItem, options: Options, source: KafkaCluster, target: KafkaCluster, work: Path
) -> dict[str, object]:
    """Both systems; both once more, for a shorter time, with producers that do not wait for more records."""
    eager = replace(item, seconds=min(item.seconds, EAGER_S))
    setups = {
        "mm2": (item, Setup("mm2", f"{item.name}-mm2", copies=options.brokers)),
        "twinlog": (item, Setup("twinlog", f"{item.name}-twinlog", copies=options.brokers)),
        "eager": (eager, Setup("mm2", f"{item.name}-eager", EAGER, copies=options.brokers)),
        "twinlog_eager": (eager, Setup("twinlog", f"{item.name}-twinlog-eager", EAGER, copies=options.brokers)),
    }
    runs: dict[str, LatencyFigures] = {}
    for name, (load, setup) in setups.items():
        talk = talking(f"{item.name}: {TITLES[setup.system]}{' with linger.ms=0' if setup.extra else ''}")
        talk(f"{load.per_second:,} records/s for {load.seconds} s, after {load.warm_up_s} s of warming up")
        runs[name] = measure_latency(load, setup, source, target, work, talk)
    mm2, twinlog, mm2_eager, twinlog_eager = (asdict(runs[name]) for name in setups)
    lines = []
    for line in compare(mm2, twinlog, item.wanted, None):
        lines.append(line)
        # The eager runs are shorter: only times of records compare.
        figure = line.figure
        if figure in item.wanted and figure.endswith("_ms"):
            for kind, mirror in (("eager", twinlog), ("without_linger", twinlog_eager)):
                pair = ({figure: mm2_eager[figure]}, {figure: mirror[figure]})
                lines += [replace(one, figure=f"{figure}_{kind}") for one in compare(*pair, item.wanted_eager, None)]
    return _found(item, lines, {name: [asdict(one)] for name, one in runs.items()})


def _low_rate(item: LowRateItem, work: Path) -> dict[str, object]:
    """Each system with a source and a target of its own, as in `_scale`."""
    runs: dict[MirrorName, LowRateFigures] = {}
    for system in SYSTEMS:
        talk = talking(f"{item.name}: {TITLES[system]}")
        with clusters(work / system) as (source, target):
            made = ManyTopics(PREFIX, item.topics, item.partitions)
            made.create(source)
            made.write(source, 1)
            runs[system] = measure_low_rate(item, system, source, target, work / system, talk)
    lines = compare(medians([runs["mm2"]]), medians([runs["twinlog"]]), item.wanted, None)
    return _found(item, lines, {system: [asdict(one)] for system, one in runs.items()})


def _scale(item: ScaleItem, work: Path) -> dict[str, object]:
    """Each system with a source and a target of its own, so that neither has the other's topics around."""
    runs: dict[MirrorName, ScaleFigures] = {}
    for system in SYSTEMS:
        talk = talking(f"{item.name}: {TITLES[system]}")
        with clusters(work / system, counted=True) as (source, target):
            prepare(item, source, talk)
            runs[system] = measure_scale(item, system, source, target, work / system, talk)
    lines = compare(medians([runs["mm2"]]), medians([runs["twinlog"]]), item.wanted, None)
    return {
        **_found(item, lines, {system: [asdict(one)] for system, one in runs.items()}),
        "properties": PROPERTIES,
    }


def _driver(item: DriverItem, work: Path) -> dict[str, object]:
    talk = talking(item.name)
    with clusters(work) as (source, target):
        talk(f"making {item.topics:,} topics with {item.topics * item.partitions:,} partitions")
        make_topics(item, source)
        figures = asdict(measure_driver(item, source, target, work, talk))
    lines = alone(figures, item.wanted)
    return _found(item, lines, {"twinlog": [figures]})


def _connect(item: ConnectItem, work: Path) -> dict[str, object]:
    runs: dict[MirrorName, ConnectFigures] = {}
    with clusters(work) as (source, target):
        prepare_records(source)
        for system in SYSTEMS:
            talk = talking(f"{item.name}: {TITLES[system]}")
            runs[system] = measure_connect(item, system, source, target, work, talk)
    lines = compare(medians([runs["mm2"]]), medians([runs["twinlog"]]), item.wanted, None)
    return _found(item, lines, {system: [asdict(one)] for system, one in runs.items()})


def _repeated(item: RepeatedItem, work: Path) -> dict[str, object]:
    with clusters(work) as (source, target):
        say(f"{item.name}: writing {item.copy.records:,} records, {item.copy.title}")
        fill(source, item.copy.name, item.copy, work)
        warm(item.copy, source, target, work)
        figures, runs = _MEASURES[type(item)](item, source, target, work, lambda what: talking(f"{item.name}, {what}"))
    lines = alone(asdict(figures), item.wanted)
    return _found(item, lines, runs)


_MEASURES: Mapping[type[RepeatedItem], Callable[..., Any]] = {
    WatchedItem: measure_watched,
    VerifyItem: measure_verify,
    ProofItem: measure_proof,
}
"""Measures the items that copy a topic many times."""


def _executors(item: ExecutorItem, work: Path) -> dict[str, object]:
    with clusters(work) as (source, target):
        figures = asdict(measure_executors(item, source, target, work, talking(item.name)))
    lines = alone(figures, item.wanted)
    return _found(item, lines, {"twinlog": [figures]})


def _frames(item: FramesItem, work: Path) -> dict[str, object]:
    with clusters(work) as (source, _):
        figures = asdict(measure_frames(item, source, work, talking(item.name)))
    known = {figure: value for figure, value in figures.items() if isfinite(value)}
    lines = alone(known, item.wanted)
    return _found(item, lines, {"twinlog": [known]})


_ON_OWN_CLUSTERS: Mapping[type[Item], Callable[[Any, Path], dict[str, object]]] = {
    LowRateItem: _low_rate,
    ScaleItem: _scale,
    DriverItem: _driver,
    ConnectItem: _connect,
    WatchedItem: _repeated,
    FramesItem: _frames,
    VerifyItem: _repeated,
    ProofItem: _repeated,
    ExecutorItem: _executors,
}
"""Measures the items of each kind that has clusters of its own."""


def _found(item: Item, lines: Sequence[Line], runs: object) -> dict[str, object]:
    """What is written down of an item: itself, the lines of its table, and the figures of each run."""
    facts = asdict(item)
    facts.pop("goals", None)
    facts["wanted"] = {figure: str(wanted) for figure, wanted in item.wanted.items()}
    return {**facts, "lines": [asdict(line) for line in lines], "runs": runs}


def _settings(options: Options) -> Document:
    return {
        "systems": list(options.systems),
        "scale": options.scale,
        "repeat": options.repeat,
        "latency_s": options.latency_s,
        "brokers": options.brokers,
        "properties": {"both": COMMON, "mm2": MM2_TUNING, "twinlog": {}},
        "heaps": {"mm2": MM2_HEAP, "broker": BROKER_HEAP},
        "notes": notes(options.latency_s, options.repeat, options.brokers),
    }
