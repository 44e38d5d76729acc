from __future__ import annotations

import json
import math
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from bench.copies import proof
from bench.copies.copying import CopyFigures
from bench.copies.proof import LagFigures, LoadFigures
from bench.copies.watched import Scraper, figures_of
from bench.flows.latency import percentile
from bench.items.catalogue import (
    CONNECT,
    CONSOLE,
    COPIES,
    DISTANCE,
    DRIVER,
    EXECUTORS,
    FRAMES,
    LATENCY,
    LOW_RATES,
    METRICS,
    NAMES,
    PROOF,
    QUERIES,
    SCALE,
    STARTS,
    TRANSFORMS,
    VERIFY,
    chosen,
)
from bench.items.goals import SHARE, Wanted
from bench.reports import front, report
from bench.reports.machine import require_disk
from bench.reports.results import Line, alone, compare
from bench.spark import frames
from bench.stage.load import documents
from bench.systems import Setup
from harness.errors import HarnessError
from twinlog.config import load


@pytest.mark.parametrize("size", [100, 1_000])
def test_documents_are_json_of_one_size(size: int) -> None:
    made = documents(size, 200)
    assert {len(text) for text in made} == {size}
    assert [json.loads(text)["id"] for text in made] == list(range(200))


def test_items_are_chosen_by_name_and_scaled() -> None:
    assert [item.name for item in chosen([], 1, 300)] == list(NAMES)
    assert chosen([], 1, LATENCY.seconds) == [
        *STARTS,
        *COPIES,
        *TRANSFORMS,
        *QUERIES,
        *DISTANCE,
        LATENCY,
        *LOW_RATES,
        SCALE,
        DRIVER,
        CONNECT,
        METRICS,
        CONSOLE,
        VERIFY,
        PROOF,
        EXECUTORS,
        FRAMES,
    ]
    (item,) = chosen(["lz4-100"], 0.5, 300)
    assert item == COPIES[1].scaled(0.5)
    assert COPIES[1].scaled(0.5).records == COPIES[1].records / 2


def test_percentiles_are_values_that_were_measured() -> None:
    ordered = [float(number) for number in range(1, 1_001)]
    assert [percentile(ordered, share) for share in (0.5, 0.9, 0.99, 0.999)] == [500, 900, 990, 999]
    assert percentile([7.0], 0.999) == 7.0


def test_ratios_are_judged_in_the_direction_that_is_wanted() -> None:
    wanted = {"records_per_s": Wanted(at_least=5), "cpu_s": Wanted(at_most=0.2), "peak_pss_mb": Wanted(at_most=0.5)}
    mm2 = {"records_per_s": 100.0, "cpu_s": 10.0, "peak_pss_mb": 0.0, "start_s": 4.0}
    twinlog = {"records_per_s": 600.0, "cpu_s": 3.0, "peak_pss_mb": 0.0, "start_s": 2.0}
    speed, share, cpu, memory, start = compare(mm2, twinlog, wanted, {"records_per_s": 1_000.0})
    assert speed == Line("records_per_s", 100.0, 600.0, 6.0, ">= 5", met=True)
    assert share == Line(SHARE, 0.1, 0.6)
    assert cpu == Line("cpu_s", 10.0, 3.0, 0.3, "<= 0.2", met=False)
    assert memory.met is None, "no verdict where there is no figure"
    assert (start.ratio, start.wanted, start.met) == (0.5, None, None)


def copied(records_per_s: float, cpu_s: float) -> CopyFigures:
    return CopyFigures(records_per_s, 1.0, 1.0, cpu_s, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, {})


def test_speeds_of_dataframes_are_those_of_the_best_round_and_none_where_jars_are_missing() -> None:
    found = frames.figures_of(FRAMES, {"read_1k": 2.0, "read_100": 5.0, "write_1k": 10.0}, None)
    assert (found.read_1k_mb_per_s, found.read_100_records_per_s, found.write_1k_mb_per_s) == (500, 1_000_000, 100)
    assert math.isnan(found.spark_read_1k_mb_per_s)
    verdicts = {line.figure: line.met for line in alone(asdict(found), FRAMES.wanted) if line.wanted is not None}
    assert verdicts == {"read_1k_mb_per_s": True, "read_100_records_per_s": True, "write_1k_mb_per_s": False}


def test_what_metrics_cost_is_a_ratio_of_medians() -> None:
    plain = [copied(100.0, 2.0), copied(900.0, 9.0), copied(200.0, 4.0)]
    scraped = [copied(150.0, 5.0), copied(190.0, 1.0), copied(10.0, 4.4)]
    watcher = Scraper()
    watcher.close()
    watcher.took_ms, watcher.page_bytes, watcher.opening_cpu_s = [3.0, 9.0, 4.0], 77, [0.5, 0.1, 0.3]
    found = figures_of(plain, scraped, watcher)
    assert (found.records_ratio, found.cpu_ratio, found.page_ms, found.pages) == (0.75, 1.1, 4.0, 3)
    assert found.opening_cpu_s == 0.3
    speed, cpu = (line for line in alone(asdict(found), METRICS.wanted) if line.wanted is not None)
    assert (speed.met, cpu.met) == (False, False)


def test_what_the_proof_costs_is_a_ratio_of_medians_with_the_brokers() -> None:
    unproven = [copied(100.0, 1.0), copied(900.0, 9.0), copied(200.0, 4.0)]
    proven = [copied(150.0, 5.5), copied(190.0, 1.0), copied(10.0, 5.0)]
    plain = [LoadFigures(90.0, cpu) for cpu in (20.0, 60.0, 10.0)]
    lags = [LagFigures(90.0, 110 * lag, lag, 2 * lag, 7) for lag in (0.2, 4.0, 0.5)]
    found = proof.figures_of(unproven, proven, plain, lags)
    # A broker takes a second of each run.
    assert (found.proven_ratio, found.proven_cpu_ratio, found.proven_all_cpu_ratio) == (0.75, 1.25, 1.2)
    assert (found.proof_lag_s, found.proof_lag_most_s) == (0.5, 1.0)
    assert (found.load_all_cpu_s_proven, found.load_all_cpu_ratio) == (55.0, 2.75)
    verdicts = {line.figure: line.met for line in alone(asdict(found), PROOF.wanted) if line.wanted is not None}
    assert verdicts == {"proven_all_cpu_ratio": False, "load_all_cpu_ratio": False, "proof_lag_most_s": True}
    assert (PROOF.load_records, PROOF.scaled(0.1).load_seconds) == (3_000_000, 10)


def test_each_system_gets_a_file_for_the_same_work(tmp_path: Path) -> None:
    clusters = "127.0.0.1:1", "127.0.0.1:2"
    mm2 = Setup("mm2", "orders", {"{target}.producer.linger.ms": "0"}).properties(*clusters)
    twinlog = Setup("twinlog", "orders").properties(*clusters)
    assert "m->dst.topics = orders\n" in mm2
    assert "dst.producer.linger.ms = 0\n" in mm2, "extra properties win over the tuning"
    assert "t->dst.topics = orders\n" in twinlog
    assert "producer" not in twinlog
    assert Setup("twinlog", "orders").remote == "t.orders"
    for text in (mm2, twinlog):
        file = tmp_path / "flow.properties"
        file.write_text(text, encoding="utf-8")
        (flow,) = load(file, ["dst"]).flows
        assert (flow.topics, flow.tasks_max, flow.refresh_topics_interval_s) == (("orders",), 4, 1.0)


@pytest.fixture
def document() -> report.Document:
    fields = ["cores", "memory_gb", "twinlog", "commit", "pyspark", "python", "kafka", "java", "processor"]
    lines = [Line("records_per_s", 1_000.0, 12_345.6, 12.3456, ">= 5", met=True), Line("p50_ms", 6.0, 3.0, 0.5)]
    item = {"name": "one", "title": "a title", "lines": [asdict(line) for line in lines]}
    machine = {**dict.fromkeys(fields, 1), "date": "2001-02-03"}
    return {"machine": machine, "partial": True, "scale": 0.5, "latency_s": 9, "notes": ["so"], "items": [item]}


def test_the_table_shows_figures_ratio_and_verdict(document: report.Document) -> None:
    (text,) = report.tables(document)
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in text.splitlines()]
    assert {len(row) for row in rows} == {6}
    assert rows[3] == ["records/s", "1,000", "12,346", "12.3", ">= 5", "pass"]
    assert rows[4] == ["latency p50, ms", "6.00", "3.00", "0.50", "", ""]
    assert "Not a whole run" in report.markdown(document)


def test_only_the_part_between_the_marks_is_replaced(document: report.Document, tmp_path: Path) -> None:
    page = tmp_path / "bench" / "README.md"
    page.parent.mkdir()
    page.write_text(f"before\n{front.BEGIN}\nold\n{front.END}\nbehind\n", encoding="utf-8")
    for _ in range(2):
        front.write_front(document, tmp_path / "x.md", tmp_path)
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"before\n{front.BEGIN}\n")
        assert text.endswith(f"\n{front.END}\nbehind\n")
        assert text.count("12,346") == 1
        assert "old" not in text
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(HarnessError, match="bench:begin"):
        front.write_front(document, tmp_path / "x.md", tmp_path)
    assert page.read_text(encoding="utf-8") == "no marks"


def test_the_pages_show_the_figures_of_the_results_they_link_to(tmp_path: Path) -> None:
    pages = [Path("README.md"), Path("bench", "README.md")]
    for page in pages:
        (tmp_path / page).parent.mkdir(exist_ok=True)
        (tmp_path / page).write_text((front.ROOT / page).read_text(encoding="utf-8"), encoding="utf-8")
    between = (front.ROOT / "README.md").read_text(encoding="utf-8").partition(front.BEGIN)[2].partition(front.END)[0]
    (name,) = set(re.findall(r"results/([\w-]+)\.md", between))
    results = front.ROOT / "bench" / "results" / f"{name}.json"
    front.write_front(json.loads(results.read_text(encoding="utf-8")), results.with_suffix(".md"), tmp_path)
    for page in pages:
        assert (tmp_path / page).read_text(encoding="utf-8") == (front.ROOT / page).read_text(encoding="utf-8")


def test_too_little_disk_is_reported_before_anything_starts(tmp_path: Path) -> None:
    require_disk(tmp_path / "not" / "there", 1)
    with pytest.raises(HarnessError, match=r"--scale or --only"):
        require_disk(tmp_path / "not" / "there", 10**18)
