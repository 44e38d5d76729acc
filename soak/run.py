"""One soak: starts measured, rounds of load and faults for as long as asked, then a rest in which nothing happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bench.stage.progress import say
from faults.kinds import FAULTS, left_out
from faults.rounds import Rounds
from faults.scene import Mode, Role, Scene, pause
from harness.errors import HarnessError
from soak.brokers import TopicSize, internal_topics, requests_between
from soak.progress import Progress
from soak.proof import ProofOutcome, look_at_proof
from soak.starts import Starts, measure_on_empty, measure_starts, measure_take_over
from soak.watch import RoleFigures, Watch

HEAP = "384m"
RATES = (20, 100, 300, 600)
"""Records per second in each of two topics; a third has transactions beside that."""
ENDING = frozenset(
    [
        *("kill driver", "stop driver", "kill engine", "kill worker", "stop worker"),
        *("throttle source", "throttle target", "delete target"),
    ]
)
"""Faults that end processes of twinlog: in the second half there are none, so that some live for long."""
ROUNDS_AT_LEAST = 12
LOAD_S = 60.0
"""Of load before a fault, and after it, at most."""
REST_S = 120.0
SETTLE_S = 15.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for; `filled` are records of earlier months in each internal topic. With `proves` the flow proves
    its copies."""

    minutes: float
    seed: int
    mode: Mode
    filled: int
    home: Path
    proves: bool = False

    @property
    def seconds(self) -> float:
        return self.minutes * 60


@dataclass
class Outcome:
    """What is known so far; parts stay empty when the run ended before they were measured."""

    wish: Wish
    empty: Starts | None = None
    full: Starts | None = None
    take_over_used_s: float | None = None
    rounds: Rounds | None = None
    ran_s: float = 0.0
    roles: dict[Role, RoleFigures] = field(default_factory=dict)
    idle_cpu: dict[Role, float] = field(default_factory=dict)
    idle_requests: dict[str, dict[str, float]] = field(default_factory=dict)
    loops: list[str] = field(default_factory=list)
    grown: dict[str, TopicSize] = field(default_factory=dict)
    log_lines: int = 0
    proof: ProofOutcome | None = None
    trouble: list[str] = field(default_factory=list)

    @property
    def fine(self) -> bool:
        """Whether all that was judged was right, and nothing kept the run from its end."""
        done = self.rounds.done if self.rounds else []
        proven = self.proof is None or self.proof.fine
        return bool(done) and all(one.fine for one in done) and not self.trouble and not self.loops and proven


def soak(outcome: Outcome) -> None:
    """Fill in the outcome; whatever ends it early leaves what was found until then, and goes on to the caller."""
    wish = outcome.wish
    say("start and take-over with empty internal topics")
    outcome.empty = measure_on_empty(wish.home / "empty", wish.mode)
    say(f"filling each internal topic with {wish.filled:,} records of earlier months")
    with Scene(wish.home / "full", wish.mode, filled=wish.filled, heap=HEAP, counted=True, proves=wish.proves) as scene:
        say("start and take-over with full internal topics")
        outcome.full = measure_starts(scene)
        with _watched(scene, outcome) as watch:
            _rounds(scene, outcome, watch)
            say("at rest")
            _rest(scene, outcome, watch)
            if wish.proves:
                outcome.proof = look_at_proof(scene)
        say("take-over with the topics of this run")
        outcome.take_over_used_s = measure_take_over(scene)
        assert outcome.rounds is not None
        outcome.rounds.end()


@contextmanager
def _watched(scene: Scene, outcome: Outcome) -> Iterator[Watch]:
    """Memory, logs and internal topics from here to the end, however it comes."""
    watch = Watch(scene).start()
    topics, lines, began = internal_topics(scene), _log_lines(scene), time.monotonic()
    try:
        yield watch
    finally:
        watch.stop()
        outcome.ran_s = time.monotonic() - began
        outcome.roles = watch.figures()
        outcome.log_lines = _log_lines(scene) - lines
        for name, size in internal_topics(scene).items():
            before = topics.get(name, TopicSize(0, 0))
            outcome.grown[name] = TopicSize(size.records - before.records, size.disk - before.disk)


def _rounds(scene: Scene, outcome: Outcome, watch: Watch) -> None:
    wish = outcome.wish
    kinds = [fault for fault in FAULTS if fault not in left_out(scene)]
    most = min(LOAD_S, wish.seconds / ROUNDS_AT_LEAST / 2)
    load_s = (most / 2, most)
    rounds = outcome.rounds = Rounds(
        scene, wish.seed, wish.home / "evidence", kinds, rates=RATES, before_s=load_s, after_s=load_s
    )
    rounds.begin()
    with Progress(rounds, watch, wish.seconds) as progress:
        while (left := progress.left_s()) > 0:
            if left < wish.seconds / 2:
                rounds.kinds = [fault for fault in kinds if fault not in ENDING]
            one = rounds.next()
            if not one.fine:
                say(str(one))
            if not one.complete:
                raise HarnessError(f"twinlog did not recover: {one}")


def _rest(scene: Scene, outcome: Outcome, watch: Watch) -> None:
    """Nothing is written; what twinlog still does is its own."""
    pause(SETTLE_S)
    began, clock = time.monotonic(), time.time()
    watch.look()
    pause(min(REST_S, outcome.wish.seconds / 5))
    watch.look()
    outcome.idle_cpu = watch.cpu(began, time.monotonic())
    for broker, rates, loops in requests_between(scene, clock, time.time()):
        outcome.idle_requests[broker] = rates
        outcome.loops += loops


def _log_lines(scene: Scene) -> int:
    return sum(child.log_lines() for child in (scene.twinlog, scene.standby))


def as_json(outcome: Outcome) -> dict[str, object]:
    """Everything that was found, round by round."""
    rounds = outcome.rounds.done if outcome.rounds else []
    return {
        "seed": outcome.wish.seed,
        "mode": outcome.wish.mode,
        "proof": None if outcome.proof is None else asdict(outcome.proof),
        "filled": outcome.wish.filled,
        "rounds": [str(one) for one in rounds],
        "roles": {role: asdict(figures) for role, figures in outcome.roles.items()},
        "idle_requests": outcome.idle_requests,
        "loops": outcome.loops,
        "trouble": outcome.trouble,
    }
