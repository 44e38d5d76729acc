"""Whether a Connect group runs what its workers acknowledged, and nothing else."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.consume import consume
from harness.topics import topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker

if TYPE_CHECKING:
    from faults.connect_group import Group

SETTLED_S = 120.0
BEATS_S = 6.0
"""For how long beats are counted once everything has settled."""
MOST_BEATS = 1.6
"""A second: two copies of a connector beat twice."""
HEARTBEATS = "heartbeats"

Kept = tuple[Mapping[str, str], str]
"""A configuration, and the state that the connector is to be in."""


def unsettled(group: Group) -> list[str]:
    """What is not as it should be; what nobody acknowledged is settled by what is there."""
    wrong: list[str] = []
    for worker in group.workers:
        if not worker.process.alive:
            return [f"a worker ended by itself: {worker.process.log_tail(1)}"]
        try:
            status, found = worker.ask("GET", "/connectors?expand=info&expand=status")
        except OSError as error:
            return [f"a worker does not answer: {error}"]
        if status != 200:
            return [f"a worker answers {status}: {found}"]
        wrong += _wrong_at(group, worker, found)
    return wrong


def _wrong_at(group: Group, worker: ConnectWorker, found: Mapping[str, Any]) -> list[str]:
    wrong = []
    ids = {one.url.removeprefix("http://") for one in group.workers}
    for name in group.allowed.keys() | found.keys():
        there = found.get(name)
        allowed = group.allowed.get(name, [None])
        if there is None:
            if None not in allowed:
                wrong.append(f"{name} is lost at {worker.url}")
            continue
        state = there["status"]["connector"]["state"]
        tasks = [task["state"] for task in there["status"]["tasks"]]
        if (there["info"]["config"], state) not in allowed:
            wrong.append(f"{name} is {state} at {worker.url}, or has not the configuration that was acknowledged")
        elif state == "RUNNING" and set(tasks) != {"RUNNING"} and (tasks or not _may_have_none(there)):
            wrong.append(f"{name} has tasks {tasks} at {worker.url}")
        elif there["status"]["connector"]["worker_id"] not in ids:
            wrong.append(f"{name} is on nobody's worker at {worker.url}")
    return wrong


def learn(group: Group) -> dict[str, Kept]:
    """What nobody acknowledged is settled by what is there."""
    _, found = group.workers[0].ask("GET", "/connectors?expand=info&expand=status")
    there = {name: (one["info"]["config"], str(one["status"]["connector"]["state"])) for name, one in found.items()}
    group.allowed = {name: [there.get(name)] for name in group.allowed}
    return there


def beats(group: Group, there: Mapping[str, Kept]) -> list[str]:
    """Whoever is to beat does so once a second, and nobody else does."""
    beating = {
        group.alias(name)
        for name, kept in there.items()
        if kept[1] == "RUNNING" and kept[0]["connector.class"].endswith("HeartbeatConnector")
    }
    if HEARTBEATS not in topics(group.target):
        return [f"{HEARTBEATS} is missing"] if beating else []
    begin = len(consume(group.target, HEARTBEATS, partitions=[0]))
    began = time.monotonic()
    found: Counter[str] = Counter()

    def all_beat() -> bool:
        found.clear()
        for record in consume(group.target, HEARTBEATS, partitions=[0])[begin:]:
            for alias in {group.alias(name) for name in group.names}:
                if alias.encode() in (record.key or b""):
                    found[alias] += 1
        return time.monotonic() - began >= BEATS_S and all(found[alias] for alias in beating)

    with contextlib.suppress(TimeoutError):
        wait_for(all_beat, BEATS_S + 30.0, "every heartbeat connector beats", every_s=0.5)
    lasted_s = time.monotonic() - began
    wrong = [f"{alias} does not beat" for alias in beating if not found[alias]]
    wrong += [f"{alias} beats, and is not to run" for alias in found if alias not in beating]
    wrong += [
        f"{alias} beat {count} times in {lasted_s:.1f} s"
        for alias, count in found.items()
        if count > 2 + MOST_BEATS * lasted_s
    ]
    return wrong


def copied(group: Group, there: Mapping[str, Kept]) -> list[str]:
    """Nothing that a source connector was to copy is missing."""
    wrong = []
    for name in group.sources:
        kept = there.get(name)
        remote = f"{group.alias(name)}.{name}"
        if kept is None or kept[1] != "RUNNING":
            continue
        wanted = {value for (value,) in ((record.value,) for record in consume(group.source, name))}

        def whole(remote: str = remote, wanted: set[bytes | None] = wanted) -> bool:
            return remote in topics(group.target) and wanted <= {one.value for one in consume(group.target, remote)}

        try:
            wait_for(whole, SETTLED_S, f"{remote} has every record", every_s=0.5)
        except TimeoutError as error:
            wrong.append(str(error).partition("; last seen")[0])
    return wrong


def _may_have_none(connector: Mapping[str, Any]) -> bool:
    """A checkpoint connector has no task while its source has no group."""
    return str(connector["info"]["config"]["connector.class"]).endswith("CheckpointConnector")
