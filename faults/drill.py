"""The drills of `make drill` with twinlog and with MirrorMaker 2: a killed source, or a planned move (`--planned`).

The figures go to `bench/results`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from bench.reports.machine import describe
from bench.reports.report import Document, markdown, write
from bench.reports.results import Line
from faults.emergency import HERE, PARTITIONS, RATE, STEADY, THERE, Drill, properties, run_drill, start
from faults.planned import PlannedMove, by_command, by_hand, run_planned
from harness.cluster import KafkaCluster

MM2, TWINLOG = "MirrorMaker 2", "twinlog"

SCENE = (
    f"Two clusters of one broker each, the mirror, a producer with {RATE} records/s in {PARTITIONS} partitions, and "
    "the consumers are on one machine; syncs have their shortest intervals."
)
PLANNED = (
    (
        "twinlog moves by `twinlog switchover`. With MirrorMaker 2 a program follows the guides, and loses no time: it "
        "stops the producers, waits until the copies have as many records, and moves the group after two rounds of "
        "checkpoints and of group offsets."
    ),
    "The time without producers is from the last record that the source took to the first that the target took.",
)
KILLED = (
    "The source is killed under load, and each group goes on at its offsets on the target.",
    f"The group {STEADY} reads and commits until the source is gone; the other group rests before.",
)


def main() -> int:
    """Drill with both systems; 1 when twinlog skips a record."""
    parser = argparse.ArgumentParser(prog="python -m faults.drill", description=__doc__)
    parser.add_argument("--planned", action="store_true", help="move from a healthy source instead")
    if parser.parse_args().planned:
        return _planned()
    drills: dict[str, Drill] = {}
    for system in (TWINLOG, MM2):
        home = Path(tempfile.mkdtemp(prefix="twinlog-drill-"))
        print(f"{system}: two clusters, a mirror, load and two groups; logs in {home}", flush=True)
        with KafkaCluster(HERE, sasl=False) as source, KafkaCluster(THERE, sasl=False) as target:
            process = start(system, properties(source, target), home)
            try:
                drills[system] = run_drill(source, target, process.require_alive)
            finally:
                process.kill()
        print(f"{system}: {drills[system]}", flush=True)
    _keep(killed(drills), "killed-source")
    return int(any(group.skipped for group in drills[TWINLOG].groups.values()))


def _planned() -> int:
    """Move with both systems; 1 when twinlog skips or repeats a record."""
    moves: dict[str, PlannedMove] = {}
    for system in (TWINLOG, MM2):
        home = Path(tempfile.mkdtemp(prefix="twinlog-drill-"))
        print(f"{system}: two clusters, a mirror, load and a group; logs in {home}", flush=True)
        with KafkaCluster(HERE, acls=True) as source, KafkaCluster(THERE, sasl=False) as target:
            process = start(system, properties(source, target), home)
            operator = by_command(home / "mm2.properties") if system == TWINLOG else by_hand(source, target)
            try:
                moves[system] = run_planned(source, target, process.require_alive, operator)
            finally:
                process.kill()
        print(f"{system}: {moves[system]}", flush=True)
    _keep(planned(moves), "planned-move")
    return int(bool(moves[TWINLOG].skipped or moves[TWINLOG].repeated))


def _keep(found: Document, kind: str) -> None:
    print(f"\n{markdown(found)}\nkept in {write(found, kind)}", flush=True)


def planned(moves: Mapping[str, PlannedMove]) -> Document:
    """The result of planned moves, in the form in which benchmarks are kept."""
    mm2, own = moves[MM2], moves[TWINLOG]
    lines = [
        Line("written", mm2.written, own.written),
        Line("copied", mm2.copied, own.copied),
        _none("skipped", mm2.skipped, own.skipped),
        _none("repeated", mm2.repeated, own.repeated),
        Line("without_producers_s", mm2.unavailable_s, own.unavailable_s),
    ]
    items = [_item("planned", "producers and a group move from a healthy source", lines)]
    return _document("A planned move of producers and a group", PLANNED, items)


def killed(drills: Mapping[str, Drill]) -> Document:
    """The result of drills with a killed source."""
    mm2, own = drills[MM2], drills[TWINLOG]
    items = [_item("killed", "the source is killed under load", [Line("copied", mm2.copied, own.copied)])]
    for group, one in own.groups.items():
        other = mm2.groups[group]
        lines = [
            Line("processed", other.processed, one.processed),
            _none("skipped", other.skipped, one.skipped),
            Line("repeated", other.repeated, one.repeated),
        ]
        items.append(_item(group, "a consumer group", lines))
    return _document("A killed source", KILLED, items)


def _none(figure: str, mm2: int, own: int) -> Line:
    """A figure that has to be 0 with twinlog."""
    return Line(figure, mm2, own, None, "0", met=own == 0)


def _item(name: str, title: str, lines: list[Line]) -> Document:
    return {"name": name, "title": title, "lines": [asdict(line) for line in lines]}


def _document(title: str, notes: tuple[str, ...], items: list[Document]) -> Document:
    return {
        "title": title,
        "machine": asdict(describe()),
        "partial": False,
        "notes": [SCENE, *notes],
        "items": items,
    }


if __name__ == "__main__":
    sys.exit(main())
