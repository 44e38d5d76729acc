"""Round after round: load, a fault at a random moment, and the judgement of every record that passed."""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from faults.kinds import FAULTS
from faults.load import TransactionLoad
from faults.positions import AS_COMMITTED, GroupVerdict, Walker
from faults.scene import PAID, PARTITIONS, PLAIN, STAMPED, START_S, Mode, Scene, pause
from faults.windows import Place, Window
from harness.checks.checker import Load, Verdict, identify
from harness.topics import topics
from harness.wait import wait_for

RATE = 600
CAUGHT_UP_S = 180.0
GROUP_S = 8.0
"""Until a group's position has come across; it was committed a round before."""
SETTLE_S = 5.0
"""What a stopped or lost copier could still send would have arrived by then."""


@dataclass(frozen=True, slots=True)
class Round:
    """`recovered_s` is from the end of the fault until everything was copied."""

    number: int
    fault: str
    what: str
    records: int
    verdict: Verdict
    complete: bool
    recovered_s: float
    group: GroupVerdict = AS_COMMITTED
    remarks: tuple[str, ...] = ()

    @property
    def fine(self) -> bool:
        return self.verdict.clean and self.complete and self.group.fine and not self.remarks

    def __str__(self) -> str:
        result = "fine" if self.fine else "WRONG: " + "; ".join([*_wrong(self.verdict), *self.remarks])
        if not self.complete:
            result += f"; not everything was copied within {CAUGHT_UP_S:g} s"
        return (
            f"{self.number:4d}  {self.fault:13s} {self.what:38s} {self.records:6,d} records, "
            f"whole after {self.recovered_s:4.1f} s, {self.group}: {result}"
        )


@dataclass
class Rounds:
    """The rounds of one scene; `evidence` gets a file for each that went wrong.

    `rates` are records per second in each topic without transactions; one of them is chosen for each round.
    `before_s` and `after_s` are between how many and how many seconds load runs before and after a fault.
    """

    scene: Scene
    seed: int
    evidence: Path
    kinds: Sequence[str] = tuple(FAULTS)
    rates: Sequence[int] = (RATE,)
    before_s: tuple[float, float] = (0.1, 1.0)
    after_s: tuple[float, float] = (0.0, 0.5)
    done: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._walker = Walker(self.scene)

    def run(self, count: int) -> list[Round]:
        """Run `count` rounds, or until twinlog does not recover."""
        self.begin()
        for _ in range(count):
            one = self.next()
            print(one, flush=True)
            if not one.complete:
                return self.done
        end = self.end()
        if not end.fine:
            print(end, flush=True)
        return self.done

    def begin(self) -> None:
        """Wait until twinlog copies."""
        scene = self.scene
        wait_for(lambda: set(scene.remotes.values()) <= set(topics(scene.target)), START_S, "remote topics are there")
        scene.copiers()

    def next(self) -> Round:
        """One more round."""
        number = len(self.done) + 1
        scene, windows, chance = self.scene, self.scene.windows, self._chance
        fault = chance.choice(list(self.kinds))
        rate = chance.choice(self.rates)
        scene.copiers()
        with ExitStack() as stack:
            for topic in (PLAIN, STAMPED, *scene.cleaned):
                stack.enter_context(Load(scene.source, topic, PARTITIONS, rate=rate, name=f"r{number}"))
            stack.enter_context(TransactionLoad(scene.source, PAID, PARTITIONS, f"r{number}", chance.getrandbits(32)))
            pause(chance.uniform(*self.before_s))
            what = FAULTS[fault](scene, chance)
            healed = time.monotonic()
            pause(chance.uniform(*self.after_s))
        scene.wait_healthy()

        judged = windows.judge(CAUGHT_UP_S, scene.supervise)
        whole = time.monotonic()
        group = self._walker.judge(GROUP_S) if judged[1] else AS_COMMITTED
        if judged[1]:
            self._walker.commit(judged[0], chance)
        remarks = scene.unasked_ends()
        one = self._note(number, fault, what, judged, whole - healed, group, remarks)
        self.done.append(one)
        return one

    def end(self) -> Round:
        """Judge what came late; it is one of those `done` only when there is something wrong with it."""
        pause(SETTLE_S)
        late = self.scene.windows.judge(CAUGHT_UP_S, self.scene.supervise)
        end = self._note(len(self.done) + 1, "the end", "what came late", late, 0.0)
        if not end.fine:
            self.done.append(end)
        return end

    def _note(
        self,
        number: int,
        fault: str,
        what: str,
        judged: tuple[Mapping[Place, Window], bool],
        recovered_s: float,
        group: GroupVerdict = AS_COMMITTED,
        remarks: Sequence[str] = (),
    ) -> Round:
        found, complete = judged
        records = sum(len(window.source) for window in found.values())
        verdict = sum((window.verdict for window in found.values()), Verdict())
        one = Round(number, fault, what, records, verdict, complete, recovered_s, group, tuple(remarks))
        if not one.fine:
            self._keep(one, found)
        return one

    def _keep(self, one: Round, found: Mapping[Place, Window]) -> None:
        """Write down the windows in which something is wrong, record by record."""
        wrong = {
            f"{topic}-{partition}": {
                "verdict": asdict(window.verdict),
                "source": [[record.offset, str(identify(record))] for record in window.source],
                "target": [[record.offset, str(identify(record))] for record in window.target],
                "rolled_back": sorted(map(str, window.aborted)),
            }
            for (topic, partition), window in found.items()
            if not window.verdict.clean
        }
        self.evidence.mkdir(parents=True, exist_ok=True)
        path = self.evidence / f"round-{one.number}.json"
        path.write_text(json.dumps({"round": str(one), "seed": self.seed, "windows": wrong}, indent=1))


def summary(mode: Mode, done: Sequence[Round]) -> str:
    """How often each fault struck, how long until everything was copied again, and what was wrong in all."""
    lines = [f"{mode}: {len(done)} rounds, {sum(one.records for one in done):,} records"]
    for fault in sorted({one.fault for one in done}):
        some = [one for one in done if one.fault == fault]
        times = [one.recovered_s for one in some]
        wrong = sum(not one.fine for one in some)
        lines.append(
            f"  {fault:13s} {len(some):4d} rounds, whole again after {statistics.median(times):.1f} s "
            f"(at most {max(times):.1f} s)" + (f", {wrong} WRONG" if wrong else "")
        )
    back = [one.group.repeated for one in done]
    lines.append(
        f"  the group stood exactly in {back.count(0)} rounds, else back by {max(back)} offsets at most; "
        f"{sum(one.group.skipped for one in done)} skipped, {sum(one.group.missing for one in done)} missing"
    )
    every = asdict(sum((one.verdict for one in done), Verdict()))
    lines.append("  records " + ", ".join(f"{number} {what}" for what, number in every.items()))
    return "\n".join(lines)


def _wrong(verdict: Verdict) -> list[str]:
    return [f"{number} {what}" for what, number in asdict(verdict).items() if number]
