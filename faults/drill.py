"""The drills of `make drill` with twinlog and with MirrorMaker 2: a killed source, or a planned move (`--planned`)."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from faults.emergency import HERE, THERE, properties, run_drill, start
from faults.planned import PlannedMove, by_command, by_hand, run_planned
from harness.cluster import KafkaCluster


def main() -> int:
    """Drill with both systems; 1 when twinlog skips a record."""
    parser = argparse.ArgumentParser(prog="python -m faults.drill", description=__doc__)
    parser.add_argument("--planned", action="store_true", help="move from a healthy source instead")
    if parser.parse_args().planned:
        return _planned()
    drills = {}
    for system in ("twinlog", "MirrorMaker 2"):
        home = Path(tempfile.mkdtemp(prefix="twinlog-drill-"))
        print(f"{system}: two clusters, a mirror, load and two groups; logs in {home}", flush=True)
        with KafkaCluster(HERE, sasl=False) as source, KafkaCluster(THERE, sasl=False) as target:
            process = start(system, properties(source, target), home)
            try:
                drills[system] = run_drill(source, target, process.require_alive)
            finally:
                process.kill()
        print(f"{system}: {drills[system]}", flush=True)
    return int(any(group.skipped for group in drills["twinlog"].groups.values()))


def _planned() -> int:
    """Move with both systems; 1 when twinlog skips or repeats a record."""
    moves: dict[str, PlannedMove] = {}
    for system in ("twinlog", "MirrorMaker 2"):
        home = Path(tempfile.mkdtemp(prefix="twinlog-drill-"))
        print(f"{system}: two clusters, a mirror, load and a group; logs in {home}", flush=True)
        with KafkaCluster(HERE, acls=True) as source, KafkaCluster(THERE, sasl=False) as target:
            process = start(system, properties(source, target), home)
            operator = by_command(home / "mm2.properties") if system == "twinlog" else by_hand(source, target)
            try:
                moves[system] = run_planned(source, target, process.require_alive, operator)
            finally:
                process.kill()
        print(f"{system}: {moves[system]}", flush=True)
    return int(bool(moves["twinlog"].skipped or moves["twinlog"].repeated))


if __name__ == "__main__":
    sys.exit(main())
