"""A consumer group walks along on the source; where it stands on the target must be the same record."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass

from faults.scene import GROUP, Scene
from faults.windows import Place, Window
from harness.checks.checker import identify
from harness.groups import commit_offsets, group_offsets
from harness.wait import wait_for


@dataclass(frozen=True, slots=True)
class Wanted:
    """Target offsets of the last record that the group has processed and of the first that it has not."""

    last: int
    first: int


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """Where the group stands on the target.

    `missing`: partitions that did not come across. `skipped`: offsets it would miss. `repeated`: offsets it would read
    again; where a copier was lost, the way of its last records is not known, and a group within them goes back.
    """

    missing: int = 0
    skipped: int = 0
    repeated: int = 0

    @property
    def fine(self) -> bool:
        return not (self.missing or self.skipped)

    def __str__(self) -> str:
        counts = {"partitions missing": self.missing, "skipped": self.skipped, "repeated": self.repeated}
        return "group: " + (", ".join(f"{number} {what}" for what, number in counts.items() if number) or "exact")


AS_COMMITTED = GroupVerdict()


class Walker:
    """Commits between two records of a window, and looks a round later where the mirror has brought the group."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._wanted: dict[Place, Wanted] = {}

    def commit(self, found: Mapping[Place, Window], chance: random.Random) -> None:
        """Commit somewhere within each window that has two records or more."""
        offsets: dict[Place, int] = {}
        for place, window in found.items():
            copies = {identify(record): record.offset for record in reversed(window.target)}
            if len(window.source) < 2 or not window.verdict.clean:
                continue
            index = chance.randrange(1, len(window.source))
            last, first = window.source[index - 1 : index + 1]
            offsets[place] = first.offset
            self._wanted[place] = Wanted(copies[identify(last)], copies[identify(first)])
        if offsets:
            commit_offsets(self._scene.source, {GROUP: offsets})

    def judge(self, deadline_s: float) -> GroupVerdict:
        """How the group stands since its last commit; that may take until the deadline to come across."""
        found: dict[Place, int] = {}

        def right() -> bool:
            offsets = group_offsets(self._scene.target, [GROUP])[GROUP]
            found.clear()
            for (topic, partition), remote in ((place, self._scene.remotes[place[0]]) for place in self._wanted):
                committed = offsets.get((remote, partition))
                if committed is not None:
                    found[topic, partition] = committed.offset
            return all(
                place in found and wanted.last < found[place] <= wanted.first for place, wanted in self._wanted.items()
            )

        with contextlib.suppress(TimeoutError):
            wait_for(right, deadline_s, "the group stands on the target where it stands on the source")
        off = {place: found[place] - wanted.first for place, wanted in self._wanted.items() if place in found}
        return GroupVerdict(
            missing=len(self._wanted) - len(off),
            skipped=sum(max(0, offsets) for offsets in off.values()),
            repeated=-sum(min(0, found[place] - self._wanted[place].last - 1) for place in off),
        )
