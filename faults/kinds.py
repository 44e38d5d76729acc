"""What can go wrong: each fault strikes a scene, lasts for a random while, and is healed when it returns."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import psutil
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from faults.scene import PARTITIONS, Scene, pause

Strike = Callable[[Scene, random.Random], str]
"""Does it, heals it, and says what it did."""

LONGEST_S = 9.0
"""A stopped process comes back before or after it is given up: a copier after 7 s, a broker after 4."""


def kill_driver(scene: Scene, chance: random.Random) -> str:
    scene.twinlog.kill()
    away = chance.uniform(0, 1)
    pause(away)
    scene.start_twinlog()
    return f"back after {away:.1f} s"


def stop_driver(scene: Scene, chance: random.Random) -> str:
    process = psutil.Process(scene.twinlog.pid)
    return _stopped(process, chance)


def kill_engine(scene: Scene, chance: random.Random) -> str:
    """Spark's JVM, and in every third round also the one that follows it, which has just been born or runs again."""
    engine = scene.kill_engine()
    what = f"process {engine}"
    if chance.random() < 1 / 3:
        scene.wait_for_engine(engine)
        away = chance.choice([chance.uniform(0, 0.5), chance.uniform(0.5, 6)])
        pause(away)
        what += f", again {away:.1f} s into {scene.kill_engine()}"
    return what


def kill_worker(scene: Scene, chance: random.Random) -> str:
    worker = chance.choice(scene.copiers())
    worker.kill()
    return f"process {worker.pid}"


def stop_worker(scene: Scene, chance: random.Random) -> str:
    return _stopped(chance.choice(scene.copiers()), chance)


def kill_source(scene: Scene, chance: random.Random) -> str:
    scene.source.kill()
    away = chance.uniform(0, 2)
    pause(away)
    scene.source.restart()
    return f"back after {away:.1f} s"


def stop_source(scene: Scene, chance: random.Random) -> str:
    with _suspended(scene.source.suspend, scene.source.resume):
        return _last(chance)


def kill_target(scene: Scene, chance: random.Random) -> str:
    node = chance.choice(list(scene.target.brokers))
    scene.target.kill(node)
    away = chance.uniform(0, 2)
    pause(away)
    scene.target.restart(node)
    return f"node {node}, back after {away:.1f} s"


def stop_target(scene: Scene, chance: random.Random) -> str:
    node = chance.choice(list(scene.target.brokers))
    with _suspended(lambda: scene.target.suspend(node), lambda: scene.target.resume(node)):
        return f"node {node}, {_last(chance)}"


def move_leaders(scene: Scene, chance: random.Random) -> str:
    """Every remote partition gets another preferred leader, and each of them leads at once."""
    admin = KafkaAdminClient(bootstrap_servers=scene.target.bootstrap)
    nodes = list(scene.target.brokers)
    turns = chance.randint(1, 3)
    try:
        for _ in range(turns):
            wanted = {}
            for remote in scene.remotes.values():
                for partition in range(PARTITIONS):
                    wanted[TopicPartition(remote, partition)] = chance.sample(nodes, len(nodes))
            admin.alter_partition_reassignments(wanted)
            # Partitions whose preferred replica leads already answer with an error that says so.
            admin.elect_leaders(
                0, {topic: list(range(PARTITIONS)) for topic in scene.remotes.values()}, raise_errors=False
            )
            pause(chance.uniform(0, 0.5))
    finally:
        admin.close()
    return f"{turns} times"


FAULTS: Mapping[str, Strike] = {
    "kill driver": kill_driver,
    "stop driver": stop_driver,
    "kill engine": kill_engine,
    "kill worker": kill_worker,
    "stop worker": stop_worker,
    "kill source": kill_source,
    "stop source": stop_source,
    "kill target": kill_target,
    "stop target": stop_target,
    "move leaders": move_leaders,
}


def _stopped(process: psutil.Process, chance: random.Random) -> str:
    def resume() -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)

    with _suspended(lambda: process.send_signal(signal.SIGSTOP), resume):
        return f"process {process.pid}, {_last(chance)}"


@contextmanager
def _suspended(suspend: Callable[[], object], resume: Callable[[], object]) -> Iterator[None]:
    suspend()
    try:
        yield
    finally:
        resume()


def _last(chance: random.Random) -> str:
    # Short ones are as likely as those that outlast a lease.
    seconds = chance.choice([chance.uniform(0.1, 2), chance.uniform(2, LONGEST_S)])
    pause(seconds)
    return f"for {seconds:.1f} s"
