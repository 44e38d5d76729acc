"""One case: MirrorMaker 2 runs it, then twinlog between the same clusters, and what both left is compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from conformance.corpus.case import Case
from conformance.corpus.facts import KNOWN, WITHOUT_HEARTBEATS, missing, observe
from conformance.corpus.scene import Scene
from conformance.corpus.systems import System, mirror_maker_2, twinlog
from harness.checks.differences import Difference, Facts, Known, differences, unexpected
from harness.errors import HarnessError
from harness.wait import slowness, wait_for

MM2_S = 120.0
TWINLOG_S = 120.0
SETTLE_S = 3.0
"""What comes after all is there, is there within this."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of one system: why it does not start, or what it left; and for how long it ran."""

    refusal: str | None
    facts: Facts
    seconds: float
    log: Path

    @property
    def starts(self) -> bool:
        return self.refusal is None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case went. `found` are differences that nobody meant."""

    case: Case
    mm2: Ran
    twinlog: Ran
    found: Sequence[Difference]
    used: frozenset[Known] = frozenset()

    @property
    def word(self) -> str:
        """The verdict in a word or two: `refused` is what a replacement must never do."""
        if not self.mm2.starts:
            return "neither starts" if not self.twinlog.starts else "twinlog starts, too"
        if not self.twinlog.starts:
            return "REFUSED"
        if self.found:
            return f"{len(self.found)} DIFFERENCES"
        return "as meant" if self.used else "equal"

    @property
    def wrong(self) -> bool:
        return self.word == "REFUSED" or bool(self.found and self.mm2.starts)


def play(case: Case, scene: Scene, home: Path) -> Verdict:
    """Run a case by both; each begins with the stock alone. Raises HarnessError where MirrorMaker 2 lags."""
    mm2 = _run(case, scene, mirror_maker_2(case, scene, home / "mm2"), lambda: not missing(scene.clusters, case), MM2_S)
    known = _known(case, scene)

    def alike() -> bool:
        # To look at everything takes the brokers longer than to look at what takes longest.
        if not case.meant and missing(scene.clusters, case):
            return False
        return not unexpected(differences(mm2.facts, observe(scene.clusters, case)), known)

    done: Callable[[], bool] = alike if mm2.starts and not case.endless else lambda: True
    ours = _run(case, scene, twinlog(case, scene, home / "twinlog"), done, TWINLOG_S, late=True)
    if not (mm2.starts and ours.starts) or case.endless:
        return Verdict(case, mm2, ours, ())
    every = differences(mm2.facts, ours.facts)
    used = frozenset(
        one for one in case.meant for each in every if _everywhere(one).covers(each) and unexpected([each], _all(KNOWN))
    )
    return Verdict(case, mm2, ours, unexpected(every, known), used)


def _known(case: Case, scene: Scene) -> list[Known]:
    quiet = "|".join(name for name in scene.clusters if name not in case.beats)
    without = replace(WITHOUT_HEARTBEATS, facts=f"({quiet}): {WITHOUT_HEARTBEATS.facts}")
    return [*_all((*KNOWN, *case.meant)), without]


def _all(known: Sequence[Known]) -> list[Known]:
    return [_everywhere(one) for one in known]


def _everywhere(one: Known) -> Known:
    """The same of each cluster."""
    return Known(rf"(one|two|three): ({one.facts})", one.reason, one.one, one.other)


def _run(
    case: Case, scene: Scene, system: System, done: Callable[[], bool], deadline_s: float, *, late: bool = False
) -> Ran:
    """Run a system until `done`, and a little longer. With `late` it is looked at all the same when it is not."""
    scene.reset()
    began = time.monotonic()
    refusal = None
    try:
        system.start()

        def ready() -> bool:
            system.require_alive()
            return done()

        try:
            wait_for(ready, deadline_s, f"{case.name} is done", every_s=0.3)
        except TimeoutError as error:
            if not late:
                left = "; ".join(missing(scene.clusters, case)[:6])
                raise HarnessError(f"MirrorMaker 2 lacks: {left} (log: {system.log})") from error
        # What comes too much comes now.
        time.sleep(SETTLE_S * min(slowness(), 3.0))
        system.require_alive()
        system.stop()
    except HarnessError as error:
        if not late and "MirrorMaker 2 lacks" in str(error):
            raise
        refusal = str(error).splitlines()[0]
    finally:
        system.kill()
    facts = observe(scene.clusters, case) if refusal is None and not case.endless else {}
    return Ran(refusal, facts, time.monotonic() - began, system.log)
