"""Items that all systems copy by turns, each of them checked first; a system that fails ends its own turn only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from confluent_kafka import KafkaException

from bench.copies.copying import CopyFigures, Kept, measure_copy
from bench.copies.fidelity import TOPIC, check_system, fill_checked
from bench.copies.limit import LimitFigures, measure_limit
from bench.items.kinds import CopyItem
from bench.peers.commands import prepare_peer
from bench.reports.results import compare_all, medians
from bench.stage.load import fill_loud
from bench.stage.pair import warm
from bench.stage.progress import talking
from bench.systems import ROOT, TITLES, Setup, SystemName
from harness.cluster import KafkaCluster
from harness.errors import HarnessError
from harness.jvm.jars import cache_dir
from harness.topics import delete_topic, delete_topics_of_users

FAILURES = (HarnessError, TimeoutError, KafkaException)
"""Errors that end the turn of a system."""


def rotated(systems: Sequence[SystemName], by: int) -> list[SystemName]:
    """The systems in the order of a round: each begins in its turn, as brokers and disk are never twice the same."""
    at = by % len(systems)
    return [*systems[at:], *systems[:at]]


class AllSystems:
    """The systems of a run with two clusters, whose topics have a replica on each of `brokers` brokers."""

    def __init__(
        self,
        systems: Sequence[SystemName],
        brokers: int,
        repeat: int,
        source: KafkaCluster,
        target: KafkaCluster,
        work: Path,
    ) -> None:
        self.systems = systems
        self.kept: dict[SystemName, Kept] = {}
        self.failed: dict[SystemName, str] = {}
        """Reasons of the systems that failed the check."""
        self._brokers = brokers
        self._repeat = repeat
        self._source = source
        self._target = target
        self._work = work

    def check(self) -> dict[str, object]:
        """Build or fetch each system and let it copy a small topic; returns the qualities that it keeps or a reason."""
        fill_checked(self._source)
        for system in self.systems:
            talk = talking(f"check: {TITLES[system]}")
            try:
                prepare_peer(system)
                setup = Setup(system, TOPIC, copies=self._brokers)
                kept = check_system(setup, self._source, self._target, self._work)
            except FAILURES as error:
                self.failed[system] = self._reason(error)
                talk(f"failed: {error}")
                delete_topics_of_users(self._target)
            else:
                self.kept[system] = kept
                talk(", ".join(f"{quality} {'kept' if held else 'LOST'}" for quality, held in asdict(kept).items()))
        delete_topic(self._source, TOPIC)
        return {
            system: asdict(self.kept[system]) if system in self.kept else self.failed[system] for system in self.systems
        }

    def copy(self, item: CopyItem, number: int) -> dict[str, object]:
        """Measure an item, `number` in its run, and describe it; a system that has failed copies the topic no more."""
        shape = fill_loud(item, self._source, self._work)
        failed = dict(self.failed)
        runs: dict[SystemName, list[CopyFigures]] = {}
        limits: list[LimitFigures] = []
        orders = [rotated(self.systems, number + round_) for round_ in range(self._repeat)]
        warm(item, self._source, self._target, self._work)
        for order in orders:
            for system in order:
                if system not in failed:
                    try:
                        runs.setdefault(system, []).append(self._measure(item, system))
                    except FAILURES as error:
                        talking(f"{item.name}: {TITLES[system]}")(f"failed: {error}")
                        failed[system] = self._reason(error)
                        delete_topics_of_users(self._target)
            os.sync()
            talk = talking(f"{item.name}: the brokers alone")
            limits.append(measure_limit(item, item.name, self._source, self._target, talk))
        delete_topic(self._source, item.name)
        limit = medians(limits)
        figures: dict[str, dict[str, float]] = {
            system: medians(runs[system]) for system in self.systems if system not in failed
        }
        # Goals are twinlog's.
        goals = item.goals if "twinlog" in self.systems else ()
        facts = asdict(item)
        facts["goals"] = [f"{goal.figure} {goal.wanted}{f' x {goal.of}' if goal.of else ''}" for goal in goals]
        return {
            **facts,
            "systems": list(self.systems),
            "rows": [asdict(row) for row in compare_all(figures, goals, limit)],
            "failed": failed,
            "runs": {system: [asdict(one) for one in many] for system, many in runs.items()},
            "log": asdict(shape),
            "orders": orders,
            "limit": limit,
        }

    def _measure(self, item: CopyItem, system: SystemName) -> CopyFigures:
        setup = Setup(system, item.name, codec=item.codec, copies=self._brokers)
        talk = talking(f"{item.name}: {TITLES[system]}")
        return measure_copy(item, setup, self._source, self._target, self._work, talk, kept=self.kept[system])

    def _reason(self, error: Exception) -> str:
        """An error's text without places of this machine."""
        text = str(error)
        for place in (self._work, cache_dir(), ROOT):
            text = text.replace(f"{place}/", "")
        return text
