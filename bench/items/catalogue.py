"""The catalogue of items with the goals of each."""

from __future__ import annotations

from dataclasses import replace

from bench.items.goals import SHARE, Goal, Wanted
from bench.items.kinds import (
    SIDES,
    Codec,
    ConnectItem,
    CopyItem,
    DriverItem,
    ExecutorItem,
    FramesItem,
    Item,
    LatencyItem,
    LowRateItem,
    ProofItem,
    ScaleItem,
    VerifyItem,
    WatchedItem,
)

_ALWAYS = (Goal("peak_pss_mb", Wanted(at_most=0.4), "mm2"),)
_UNCOMPRESSED = (
    Goal("records_per_s", Wanted(at_least=1.15), "franz"),
    Goal("cpu_s", Wanted(at_most=1), "franz"),
    Goal("brokers_cpu_s", Wanted(at_most=1), "franz"),
    *_ALWAYS,
)
_COMPRESSED = (
    Goal("records_per_s", Wanted(at_least=1.5), "franz"),
    Goal(SHARE, Wanted(at_least=0.9)),
    *_ALWAYS,
)


def _copy(
    name: str, records: int, record_bytes: int, goals: tuple[Goal, ...], *, codec: Codec = "none", partitions: int = 4
) -> CopyItem:
    size = f"{record_bytes} B" if record_bytes < 1_000 else f"{record_bytes // 1_000} KB"
    kind = "uncompressed" if codec == "none" else codec
    title = f"{size} JSON, {kind}, 64 KB batches, {partitions} partition{'s' if partitions > 1 else ''}"
    return CopyItem(name, title, records, record_bytes, {}, partitions, codec, goals=goals)


COPIES = (
    _copy("json-1k", 1_000_000, 1_000, _UNCOMPRESSED),
    _copy("lz4-100", 5_000_000, 100, _COMPRESSED, codec="lz4"),
    CopyItem(
        name="single-100",
        title="100 B JSON, uncompressed, 1 record per batch, 4 partitions",
        records=1_000_000,
        record_bytes=100,
        wanted={},
        batch_bytes=1,
        goals=(Goal("records_per_s", Wanted(at_least=1), "franz"), *_ALWAYS),
    ),
    _copy("zstd-1p", 1_000_000, 1_000, _COMPRESSED, codec="zstd", partitions=1),
    _copy("plain-10k", 100_000, 10_000, _UNCOMPRESSED),
    _copy("plain-100", 5_000_000, 100, _UNCOMPRESSED),
    _copy("snappy-1k", 1_000_000, 1_000, _COMPRESSED, codec="snappy"),
    _copy("gzip-1k", 1_000_000, 1_000, _COMPRESSED, codec="gzip"),
)

DISTANCE = tuple(
    CopyItem(
        name=f"far-{side}",
        title=f"1 KB JSON, uncompressed, 64 KB batches, 1 partition, {side} 80 ms away",
        records=1_000_000,
        record_bytes=1_000,
        partitions=1,
        # 50 MB/s, where MirrorMaker 2 makes 15.
        wanted={"records_per_s": Wanted(at_least=3)},
        far=side,
    )
    for side in SIDES
)

TRANSFORMS = tuple(
    replace(
        COPIES[number],
        name=name,
        title=f"{COPIES[number].title}, through a transform that changes nothing",
        wanted={"records_per_s": Wanted(at_least=2)},
        transform=True,
        goals=(),
    )
    for number, name in enumerate(("transform-1k", "transform-100"))
)
QUERIES = tuple(
    replace(
        TRANSFORMS[number],
        name=name,
        title=f"{COPIES[number].title}, through a query of Spark SQL that gives each value as it is",
        wanted={},
        sql=True,
    )
    for number, name in enumerate(("sql-1k", "sql-100"))
)
RAW_SHARE = Wanted(at_least=0.5)
"""Of the records a second that twinlog copies without the transform."""

START = CopyItem(
    name="start",
    title="from starting the process to the first record, 1,000 records of 100 B, 4 partitions",
    records=1_000,
    record_bytes=100,
    wanted={"start_s": Wanted(at_most=0.4)},
)
START_AT_ONCE = replace(
    START,
    name="start-at-once",
    title="the same, while brokers have `group.initial.rebalance.delay.ms=0` instead of 3 s",
    joins_at_once=True,
)
STARTS = (START, START_AT_ONCE)
START_ROUNDS = 3
START_S = Wanted(at_most=3)
"""Seconds from the start of the process to the first record."""

LATENCY = LatencyItem(
    name="latency",
    title="100 B JSON at 1,000 records/s, 4 partitions",
    per_second=1_000,
    record_bytes=100,
    partitions=4,
    seconds=300,
    warm_up_s=10,
    wanted={"p50_ms": Wanted(at_most=0.25), "p99_ms": Wanted(at_most=0.5), "cpu_meanwhile_s": Wanted(at_most=1.0)},
    wanted_eager={"p50_ms": Wanted(at_most=1.0)},
)

RATES = (0, 10, 100, 1_000)
LOW_RATES = tuple(
    LowRateItem(
        name=f"low-rate-{4 * topics}",
        title=f"100 B JSON at 0 to 1,000 records/s, {topics} topic{'s' if topics > 1 else ''} with 4 partitions",
        topics=topics,
        partitions=4,
        rates=RATES,
        seconds=30,
        wanted={f"cpu_at_{rate}": Wanted(at_most=1.0) for rate in RATES},
    )
    for topics in (1, 500)
)

SCALE = ScaleItem(
    name="scale",
    title="500 topics with 2,000 partitions, 1,000 consumer groups",
    topics=500,
    partitions=4,
    records=10,
    groups=1_000,
    wanted={},
)

DRIVER = DriverItem(
    name="driver",
    title="the driver alone: 500 topics with 10,000 partitions, 100 copiers that copy nothing",
    topics=500,
    partitions=20,
    copiers=100,
    wanted={"idle_share": Wanted(at_most=0.3), "refresh_s": Wanted(at_most=5.0)},
)

CONNECT = ConnectItem(
    name="connect",
    title="a Connect worker: starts, 50 clients that list 100 connectors, 30 idle connectors",
    starts=3,
    listed=100,
    clients=50,
    seconds=30,
    idle=30,
    wanted={"idle_cpu": Wanted(at_most=1.0)},
)

METRICS = WatchedItem(
    name="metrics",
    title="json-1k three times over, without metrics and scraped every second",
    copy=replace(COPIES[0], name="scraped-json-1k", records=3_000_000, goals=()),
    rounds=3,
    wanted={"records_ratio": Wanted(at_least=0.98), "cpu_ratio": Wanted(at_most=1.02)},
)

CONSOLE = WatchedItem(
    name="console",
    title="json-1k three times over, without and with five browsers that show the flow",
    copy=replace(COPIES[0], name="shown-json-1k", records=3_000_000, goals=()),
    rounds=11,
    wanted={"records_ratio": Wanted(at_least=0.99), "cpu_ratio": Wanted(at_most=1.02)},
)

VERIFY = VerifyItem(
    name="verify",
    title="json-1k three times over, copied and compared with its copy",
    copy=replace(COPIES[0], name="verified-json-1k", records=3_000_000, goals=()),
    rounds=3,
    wanted={"verify_ratio": Wanted(at_least=0.5)},
)

PROOF = ProofItem(
    name="proof",
    title="json-1k three times over, and 100 MB/s, without and with the proof of equality",
    copy=replace(COPIES[0], name="proven-json-1k", records=3_000_000, goals=()),
    rounds=3,
    wanted={
        "proven_all_cpu_ratio": Wanted(at_most=1.1),
        "load_all_cpu_ratio": Wanted(at_most=1.1),
        "proof_lag_most_s": Wanted(at_most=5),
    },
    load_per_s=100_000,
    load_seconds=30,
)

EXECUTORS = ExecutorItem(
    name="executor-lost",
    title="a standalone Spark of three workers, of which one is lost: longest that a partition stands still",
    partitions=6,
    per_second=600,
    wanted={},
)

FRAMES = FramesItem(
    name="dataframes",
    title="DataFrames on local[2]: 1 KB and 100 B read, 1 KB written by one task",
    large=replace(COPIES[0], name="frames-1k", goals=()),
    small=replace(COPIES[1], name="frames-100", goals=()),
    rounds=4,
    wanted={
        "read_1k_mb_per_s": Wanted(at_least=300),
        "read_100_records_per_s": Wanted(at_least=400_000),
        "write_1k_mb_per_s": Wanted(at_least=150),
    },
)

NAMES = (
    *(item.name for item in (*STARTS, *COPIES, *TRANSFORMS, *QUERIES, *DISTANCE)),
    LATENCY.name,
    *(item.name for item in LOW_RATES),
    SCALE.name,
    DRIVER.name,
    CONNECT.name,
    METRICS.name,
    CONSOLE.name,
    VERIFY.name,
    PROOF.name,
    EXECUTORS.name,
    FRAMES.name,
)


def chosen(names: list[str], scale: float, latency_s: int) -> list[Item]:
    """The items named, or all of them, in their order; record counts times `scale`."""
    copies = (item.scaled(scale) for item in (*COPIES, *TRANSFORMS, *QUERIES, *DISTANCE))
    items: list[Item] = [*STARTS, *copies, replace(LATENCY, seconds=latency_s)]
    items += [item.scaled(scale) for item in LOW_RATES]
    items += [SCALE.scaled(scale), DRIVER.scaled(scale), CONNECT.scaled(scale), METRICS.scaled(scale)]
    items += [CONSOLE.scaled(scale)]
    items += [VERIFY.scaled(scale), PROOF.scaled(scale), EXECUTORS, FRAMES.scaled(scale)]
    return [item for item in items if not names or item.name in names]
