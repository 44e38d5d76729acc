"""How long a Connect group takes to run elsewhere what a worker ran that was killed."""

from __future__ import annotations

import time
from dataclasses import dataclass

from faults.connect_group import SETTLED_S, Group, Round, unsettled
from harness.consume import consume
from harness.topics import topics
from harness.wait import wait_for
from tests.integration.connect_worker import ConnectWorker


@dataclass(frozen=True, slots=True)
class TakeOver:
    """What a killed worker ran, and after how many seconds others had been given it, all of it was shown as running,
    and the first record copied by it was on the target."""

    moved: int
    given_s: float
    running_s: float
    copied_s: float

    def __str__(self) -> str:
        return (
            f"{self.moved} connectors of a killed worker: given to others after {self.given_s:.1f} s, running after "
            f"{self.running_s:.1f} s, first record after {self.copied_s:.1f} s"
        )


def take_over(group: Group) -> TakeOver:
    """Kill the worker that has the first source connector once all is settled, and start it again afterwards."""
    calm = Round(0)
    for name in dict.fromkeys((*group.names[:4], group.sources[0])):
        group.ask(calm, name, group.any_config(name))
    # A round may have left it paused or stopped.
    group.ask(calm, group.sources[0], state="resume")
    wait_for(lambda: not unsettled(group), SETTLED_S, "every worker answers what was acknowledged", every_s=0.5)
    name = group.sources[0]
    remote = f"{group.alias(name)}.{name}"
    group.produce(name, 1)
    wait_for(lambda: _has(group, remote, group.last(name)), SETTLED_S, "all is copied", every_s=0.5)
    killed = next(one for one in group.workers if one.url.endswith(_owners(group)[name][0]))
    other = next(one for one in group.workers if one is not killed)
    # Paused and stopped connectors stay so on their next worker.
    lost = {one for one, (worker, runs) in _owners(group).items() if runs and killed.url.endswith(worker)}
    killed.process.kill()
    began = time.monotonic()
    took: dict[str, float] = {}
    group.produce(name, 1)

    def look(step: str, true: bool) -> None:
        if true:
            took.setdefault(step, time.monotonic() - began)

    def over() -> bool:
        found = _owners(group, other)
        look("given", all(not killed.url.endswith(found[one][0]) for one in lost))
        look("running", "given" in took and all(found[one][1] for one in lost))
        if "copied" not in took:
            look("copied", _has(group, remote, group.last(name)))
        return len(took) == 3

    try:
        wait_for(over, SETTLED_S, "others run what a killed worker ran", every_s=0.05)
    finally:
        killed.process.start()
    return TakeOver(len(lost), took["given"], took["running"], took["copied"])


def _owners(group: Group, asked: ConnectWorker | None = None) -> dict[str, tuple[str, bool]]:
    """Which worker each connector is on, and whether it runs there with its tasks."""
    _, found = (asked or group.workers[0]).ask("GET", "/connectors?expand=status")
    return {
        name: (
            one["status"]["connector"]["worker_id"],
            {part["state"] for part in (one["status"]["connector"], *one["status"]["tasks"])} == {"RUNNING"},
        )
        for name, one in found.items()
    }


def _has(group: Group, topic: str, value: bytes) -> bool:
    return topic in topics(group.target) and any(one.value == value for one in consume(group.target, topic))
