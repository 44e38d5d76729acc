"""The page of readiness and `twinlog switchover --rehearse` give the same answer, in a hundred drawn states.

Both read the same scripted clusters, each in a state of its own that is drawn from the same seed. The pre-flight is the
real one. The draw itself knows the obstacles, so an answer that both get wrong fails, too.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from click.testing import Result
from typer.testing import CliRunner

from tests.unit.mirror.groups.test_safe_move import STANDS
from tests.unit.ops.status.test_command import REPORTED
from tests.unit.ops.status.test_state import NOW
from tests.unit.ops.switchover.machines import A_TO_B, PLANNED, machine
from tests.unit.ops.switchover.scripted import P0, P1, Brokers, Kill, KilledError
from tests.unit.ui.browser import Browser
from tests.unit.ui.fakes import HELD, FakeSources, ScriptedClusters, group, snapshot
from twinlog.cli.main import app as cli
from twinlog.errors import ClusterError, RefusedError
from twinlog.model.acls import AclOperation
from twinlog.model.topics import Topic
from twinlog.model.types import GroupId, SourceOffset, TopicPartition
from twinlog.ops.switchover import session
from twinlog.ops.switchover.clusters import LiveClusters
from twinlog.ops.switchover.journal import JournalEntries
from twinlog.ops.switchover.model import (
    CopiedPosition,
    Data,
    FenceMethod,
    GroupOffset,
    MovedGroups,
    MovedTopic,
    NotReadyError,
    Preflight,
    SourceEnd,
    SwitchoverKind,
    SwitchoverOptions,
)
from twinlog.ops.switchover.preflight import judge_preflight
from twinlog.ops.switchover.preflight_facts import PreflightFacts
from twinlog.ops.switchover.stopped_partitions import StoppedPartitions
from twinlog.ui.app import console_app
from twinlog.ui.rehearsal import RehearsalReader
from twinlog.ui.sources import ConsoleSources
from twinlog.worker.status.report import ProofProgress

STATES = 100
READY = "/ui/api/readiness?flow=a-%3Eb"
FILE = "clusters = a, b\na.bootstrap.servers = a-1:9092\nb.bootstrap.servers = b-1:9092\na->b.enabled = true\n"

WORDS = {
    "no topic": "mirrors no topic that exists on a",
    "missing": "missing on b, or with fewer partitions",
    "smaller": "missing on b, or with fewer partitions",
    "uncopied": "nothing is copied yet",
    "no leader": "1 partition of a has no leader",
    "no right": "this login lacks ALTER on cluster a",
    "no fence": "takes no quotas over its protocol",
    "under way": "a switchover b->a has begun and is still incomplete",
    "other wave": "fenced already by a->b",
    "stopped": "no process of flow a->b is in its group, and its positions stayed the same during the check",
    "held": "TW-GAP-01: orders-0 is held at source offset",
    "paused": "orders-1 is paused with",
}
"""The obstacles that a state may have, each with words of its problem."""

STOPPED = ("held", "paused")
"""The obstacles of single partitions; a state may have them beside up to three obstacles of the clusters."""

APART = (
    {"no topic", "missing", "smaller", "uncopied", "no leader"},
    {"no right", "no fence"},
    {"no topic", "held"},
    {"no topic", "no leader", "paused"},
)
"""Of each of these sets, a state has one obstacle at most: the other obstacles would be hidden."""

PROOFS: Mapping[ProofProgress | None, bool | None] = {
    None: None,
    ProofProgress(2, 0.2, 1000, 41_300_000): True,
    ProofProgress(2, 60.0, 1000, 41_300_000): False,
    ProofProgress(2, 0.2, 1000, 41_300_000, 0, 1): False,
}
"""The proofs that a flow may report, and whether the check of the proof is good; None without such a check."""

FAILURES: Mapping[str, tuple[ClusterError, int]] = {
    "silent": (ClusterError("cluster a: no broker can be reached", message_id="TW-NET-01"), 3),
    "refused": (RefusedError("cluster b: User:x lacks DESCRIBE on the cluster", message_id="TW-RIGHT-02"), 3),
    "journal": (RefusedError("cluster b: User:x lacks READ on the journal", message_id="TW-RIGHT-02"), 3),
}
"""The errors that leave the answer open, each with the exit code of the command."""


@dataclass(frozen=True)
class DrawnState:
    """A state of two clusters and of the flow between them."""

    seed: int
    obstacles: frozenset[str]
    failure: str
    keeps_names: bool
    ends: tuple[int, int]
    copied: tuple[int, int]
    rate: float | None
    interrupted_at: int
    """The call at which an earlier process of the same switchover was killed, 0 without such a process."""
    runs: bool
    open_transaction: bool
    lag: int | None
    held: int
    missing: int
    beats: bool
    groups_safe: bool
    active_on_target: bool
    proof: ProofProgress | None = None
    paused_lag: int | None = -1
    """The records that wait in a paused partition: None when unknown, -1 without such a partition."""

    @property
    def loss(self) -> int | None:
        """The records that lack a copy."""
        if self.lag is None or self.missing or self.paused_lag is None:
            return None
        return self.lag + max(0, self.paused_lag)

    @property
    def answer(self) -> str:
        return "unknown" if self.failure else "no" if self.obstacles else "yes"

    def brokers(self) -> Brokers:
        """Clusters in this state, the same each time."""
        found = Brokers(
            A_TO_B,
            keeps_names=self.keeps_names,
            logs=dict(zip((P0, P1), self.ends, strict=True)),
            copied=dict(zip((P0, P1), self.copied, strict=True)),
        )
        if self.interrupted_at:
            # A process was at work on the same switchover, and is gone.
            begun, kill = Brokers(A_TO_B, keeps_names=self.keeps_names), Kill(self.interrupted_at)
            try:
                machine(begun, kill).run(PLANNED)
            except KilledError:
                found.records = begun.records
        return found

    def clusters(self) -> LiveClusters:
        return cast(LiveClusters, DrawnClusters(self))


class DrawnClusters(ScriptedClusters):
    """The clusters of a state, with the real pre-flight on its facts."""

    def __init__(self, state: DrawnState) -> None:
        gate = threading.Event()
        gate.set()
        super().__init__(state.brokers(), Kill(), gate)
        self._state = state
        if state.failure == "journal":
            self.journal.read = self._fail  # type: ignore[method-assign]

    def _fail(self) -> NoReturn:
        raise FAILURES[self._state.failure][0]

    def connect(self, timeout_s: float, *, source_lost: bool = False) -> None:
        if self._state.failure == "silent":
            self._fail()

    def _has(self, obstacle: str) -> bool:
        return obstacle in self._state.obstacles

    @property
    def topics(self) -> tuple[MovedTopic, ...]:
        return () if self._has("no topic") else super().topics

    def source_ends(self, topics: Collection[MovedTopic]) -> dict[TopicPartition, SourceEnd]:
        found = super().source_ends(topics) if topics else {}
        return {where: end for where, end in found.items() if where != P1 or not self._has("no leader")}

    def read_copied_positions(self) -> dict[TopicPartition, CopiedPosition]:
        found = super().read_copied_positions()
        if self._has("held"):
            found[P0] = CopiedPosition(self._state.copied[0], None)
        if self._has("paused"):
            found[P1] = CopiedPosition(self._state.ends[1] - 1, None)
        return {where: one for where, one in found.items() if where != P0 or not self._has("uncopied")}

    def _stopped(self) -> StoppedPartitions:
        held = replace(HELD, partition=0, source_offset=SourceOffset(self._state.copied[0]), resume_at=SourceOffset(-1))
        return StoppedPartitions(
            (held,) if self._has("held") else (), paused=frozenset({P1} if self._has("paused") else ())
        )

    def preflight(self, options: SwitchoverOptions) -> Preflight:
        if self._state.failure == "refused":
            self._fail()
        found = judge_preflight(self._facts(options.kind), options.fence)
        found = LiveClusters._fenceable(cast(LiveClusters, self), found, options)
        return replace(found, groups=("shop",))

    def _facts(self, kind: SwitchoverKind) -> PreflightFacts:
        state, topics = self._state, self.topics
        partitions = 1 if self._has("smaller") else 2
        there = {} if self._has("missing") else {one.remote: Topic(one.remote, partitions) for one in topics}
        return PreflightFacts(
            source=self.ends.source,
            target=self.ends.target,
            kind=kind,
            topics=topics,
            target_topics=there,
            ends=self.source_ends(topics),
            starts=self.source_starts(topics),
            copied=self.read_copied_positions(),
            authorizer=not self._has("no fence"),
            quotas=not self._has("no fence"),
            operations=frozenset() if self._has("no right") else frozenset({AclOperation.ALL}),
            members=("shop",),
            on_target=("shop",) if state.active_on_target else (),
            runs=state.runs and not self._has("stopped"),
            transactions=("orders-0: of app-1",) if state.open_transaction else (),
            under_way=self._has("under way"),
            rate=None if self._has("stopped") else state.rate,
            stopped=self._stopped(),
        )

    def plan_fence(self, fence: FenceMethod, topics: Collection[MovedTopic]) -> Data:
        if self._has("other wave"):
            raise NotReadyError(("TW-SWITCH-05: orders: fenced already by a->b; lift that first with --release",))
        return {"restore": "open"}

    def groups(
        self,
        topics: Collection[MovedTopic],
        cut: Mapping[TopicPartition, int],
        there: Mapping[TopicPartition, int],
        began: Mapping[TopicPartition, int],
        known: Collection[str],
    ) -> MovedGroups:
        remote = TopicPartition(self.topics[0].remote, 0)
        place = cut[P0] + self.brokers.shift if self._state.groups_safe else None
        offset = GroupOffset("shop", P0, cut[P0], remote, place, exact=True)
        active = "Stable" if self._state.active_on_target else "Empty"
        return MovedGroups({"shop": "Stable"}, {"shop": active}, (offset,))

    def read_earlier_journal(self) -> JournalEntries:
        return JournalEntries()


class DrawnSources(FakeSources):
    """The flow `a->b` in a state: what its status and its groups say, and the rehearsal on its clusters."""

    def __init__(self, state: DrawnState) -> None:
        super().__init__()
        self._state = state
        report = replace(
            REPORTED,
            lag=-1 if state.lag is None else state.lag,
            held=state.held,
            held_partitions=(HELD,) * state.held,
            missing=state.missing,
            paused=state.paused_lag != -1,
            paused_lag=state.paused_lag if state.paused_lag != -1 else 0,
            proof=state.proof,
        )
        self.only.flow = snapshot(report, heartbeat_ms=NOW - 500 if state.beats else None)
        late = replace(STANDS, group=GroupId("late"), copied=SourceOffset(0))
        self.only.groups = [group("shop")] if state.groups_safe else [group("shop"), group("late", late)]

    def open_rehearsal(self, name: str) -> RehearsalReader:
        return ConsoleSources.open_rehearsal(self, name)

    def open_clusters(self, name: str) -> LiveClusters:
        return self._state.clusters()


def drawn(seed: int) -> DrawnState:
    """A state: ready, with obstacles, or with an error that leaves the answer open."""
    chance = random.Random(seed)
    failure = chance.choice(list(FAILURES)) if chance.random() < 0.15 else ""
    obstacles: set[str] = set()
    for name in chance.sample([name for name in WORDS if name not in STOPPED], chance.choice((0, 0, 1, 1, 2, 3))):
        hides = any(name in apart and obstacles & apart for apart in APART)
        # The plan of the fence is made for a state without another obstacle.
        alone = name == "other wave" or "other wave" in obstacles
        if not hides and not (alone and obstacles):
            obstacles.add(name)
    ends = chance.randint(1, 100), chance.randint(1, 100)
    state = DrawnState(
        seed,
        frozenset(obstacles),
        failure,
        keeps_names=chance.random() < 0.5,
        ends=ends,
        copied=(chance.randint(0, ends[0]), chance.randint(0, ends[1])),
        rate=(rate := chance.choice((None, 5.0, 1000.0))),
        interrupted_at=chance.choice((0, 0, chance.randint(2, 30))),
        runs=rate is None or chance.random() < 0.8,
        open_transaction=chance.random() < 0.2,
        lag=chance.choice((None, 0, 1204)),
        held=chance.choice((0, 0, 2)),
        missing=chance.choice((0, 0, 1)),
        beats=chance.random() < 0.8,
        groups_safe=chance.random() < 0.7,
        active_on_target=chance.random() < 0.2,
    )
    # The fence of another wave is found only in a state without another obstacle.
    for name in STOPPED if "other wave" not in obstacles else ():
        if chance.random() < 0.2 and not any(name in apart and obstacles & apart for apart in APART):
            obstacles.add(name)
    proof, paused_lag = chance.choice(list(PROOFS)), chance.choice((-1, -1, None, 0, 295))
    return replace(state, obstacles=frozenset(obstacles), proof=proof, paused_lag=paused_lag)


def by_page(state: DrawnState) -> Any:
    """The JSON of the page."""
    app = console_app(DrawnSources(state))
    try:
        return Browser(app).json(READY)
    finally:
        app.close()


def by_command(state: DrawnState, home: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any, str]:
    """The exit code of the command, its JSON, and its lines on stderr."""
    done = run(state, home, monkeypatch, "--json")
    return done.exit_code, json.loads(done.stdout) if done.stdout else None, done.stderr


def run(state: DrawnState, home: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
    """The rehearsal of the command."""

    def end(code: int) -> NoReturn:
        raise SystemExit(code)

    # It is the process's own.
    monkeypatch.setattr("twinlog.ops.switchover.command.log_warnings", lambda: None)
    monkeypatch.setattr(session, "end_process", end)
    monkeypatch.setattr(session, "LiveClusters", lambda *_, **__: state.clusters())
    file = home / "mm2.properties"
    file.write_text(FILE)
    return CliRunner().invoke(cli, ["switchover", str(file), "--from", "a", "--to", "b", "--rehearse", *options])


@pytest.mark.parametrize("seed", range(STATES))
def test_the_page_answers_as_the_rehearsal_of_the_command(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = drawn(seed)
    page = by_page(state)
    code, data, errors = by_command(state, tmp_path, monkeypatch)
    assert page["ready"] == state.answer, state
    if state.failure:
        error, expected = FAILURES[state.failure]
        assert (code, data) == (expected, None), errors
        assert str(error) in errors
        assert page["trouble"] == f"{error.message_id}: {error}"
        assert (page["problems"], page["seconds_without_producers"]) == ([], None)
        return
    assert code == (1 if state.obstacles else 0), errors
    for name in ("problems", "notes", "fence", "stands"):
        assert page[name] == data[name], name
    assert {name for name, words in WORDS.items() if any(words in one for one in data["problems"])} == {
        name for name in WORDS if WORDS[name] in {WORDS[one] for one in state.obstacles}
    }
    assert page["seconds_without_producers"] == (None if state.obstacles else data["seconds_without_producers"])
    shown = [(one["step"], one["does"], one["seconds"]) for one in page["steps"]]
    assert shown == [(one["step"], one["does"], one["seconds"]) for one in data["steps"]]
    assert bool(shown) == (not state.obstacles)


def test_an_interrupted_switchover_is_shown_before_its_rehearsal_in_the_words_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = replace(drawn(0), obstacles=frozenset(), failure="", interrupted_at=0)
    assert "last switchover" not in run(clean, tmp_path, monkeypatch).stdout
    # Its process was killed while producers were fenced.
    interrupted = replace(clean, interrupted_at=20)
    stands = by_page(interrupted)["stands"]
    assert stands.startswith("a->b is running, last step ")
    assert "producers are fenced; the same command continues there, --abort undoes it" in stands
    for state in (interrupted, replace(interrupted, obstacles=frozenset({"no right"}))):
        assert f"{stands}\n" in run(state, tmp_path, monkeypatch).stdout


@pytest.mark.parametrize("seed", range(0, STATES, 5))
def test_the_checks_have_the_facts_of_the_state(seed: int) -> None:
    state = drawn(seed)
    page = by_page(state)
    good = {one["check"]: one["good"] for one in page["checks"]}
    assert good == {
        "State of the flow": True,
        "Records to copy": state.lag is not None,
        "Held partitions": not state.held,
        "Paused partitions": None if state.paused_lag is None else state.paused_lag <= 0,
        "Missing remote topics": not state.missing,
        **({} if state.proof is None else {"Proof of equality": PROOFS[state.proof]}),
        "Heartbeats": state.beats,
        "Consumer groups": state.groups_safe,
    }
    assert page["loss_if_source_is_lost"] == state.loss


def test_the_states_have_every_answer_and_every_obstacle() -> None:
    states = [drawn(seed) for seed in range(STATES)]
    answers = Counter(state.answer for state in states)
    assert min(answers[answer] for answer in ("yes", "no", "unknown")) >= STATES // 12, answers
    assert set(WORDS) == {name for state in states if not state.failure for name in state.obstacles}
    assert set(FAILURES) == {state.failure for state in states} - {""}
    assert any(state.interrupted_at and state.brokers().records for state in states if state.answer == "yes")
    assert any(len(state.obstacles) > 1 for state in states)
