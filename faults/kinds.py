"""What can go wrong: each fault strikes a scene, lasts for a random while, and is healed when it returns."""

from __future__ import annotations

import contextlib
import random
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import psutil
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

from faults.scene import HERE, PARTITIONS, SMALL, TOPICS, Scene, pause
from harness.cluster import KafkaCluster
from harness.quotas import Rate, quota
from harness.topics import delete_records, set_topic_config, topics

Strike = Callable[[Scene, random.Random], str]
"""Does it, heals it, and returns what it did."""

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
    return _killed(scene.source, chance)


def stop_source(scene: Scene, chance: random.Random) -> str:
    return _hanging(scene.source, chance)


def kill_target(scene: Scene, chance: random.Random) -> str:
    return _killed(scene.target, chance)


def stop_target(scene: Scene, chance: random.Random) -> str:
    return _hanging(scene.target, chance)


def move_leaders(scene: Scene, chance: random.Random) -> str:
    """Every remote partition gets another preferred leader, and each of them leads at once."""
    turns = chance.randint(1, 3)
    for _ in range(turns):
        place_replicas(scene.target, scene.remotes.values(), PARTITIONS, len(scene.target.brokers), chance)
        pause(chance.uniform(0, 0.5))
    return f"{turns} times"


def move_source(scene: Scene, chance: random.Random) -> str:
    """Partitions leave a broker and come back, as when it is decommissioned and replaced."""
    return _moved(scene, scene.source, TOPICS, chance)


def move_target(scene: Scene, chance: random.Random) -> str:
    return _moved(scene, scene.target, list(scene.remotes.values()), chance)


def move_internal(scene: Scene, chance: random.Random) -> str:
    """Every topic of a cluster that holds no records of users gets other replicas and leaders: coordinators of groups
    and of transactions move, and what twinlog keeps."""
    cluster = chance.choice([scene.source, scene.target])
    users = {*TOPICS, *scene.remotes.values(), *scene.cleaned, *(f"{HERE}.{topic}" for topic in scene.cleaned)}
    internal = {name: count for name, count in topics(cluster).items() if name not in users}
    for copies in (len(cluster.brokers) - 1, len(cluster.brokers)):
        _place(cluster, internal, copies, chance)
        scene.wait_healthy()
        pause(chance.uniform(0, 2))
    return f"{len(internal)} topics of {cluster.name}"


def throttle_source(scene: Scene, chance: random.Random) -> str:
    return _throttled(scene, scene.source, "consumer_byte_rate", chance)


def throttle_target(scene: Scene, chance: random.Random) -> str:
    return _throttled(scene, scene.target, "producer_byte_rate", chance)


def delete_target(scene: Scene, chance: random.Random) -> str:
    """Everything on the target is deleted, also what came after the last stored positions of a killed driver."""
    scene.twinlog.kill()
    # Its copiers end by themselves, and what they sent has arrived then.
    away = chance.uniform(0.5, 2)
    pause(away)
    ends = scene.windows.keep()
    for (remote, partition), offset in ends.items():
        delete_records(scene.target, remote, offset, partition)
    scene.start_twinlog()
    return f"up to {max(ends.values())}, back after {away:.1f} s"


def expire(scene: Scene, chance: random.Random) -> str:
    """What was copied and judged goes on both clusters, as by retention."""
    for cluster, ends in ((scene.source, scene.windows.read), (scene.target, scene.windows.copied)):
        for (topic, partition), offset in ends.items():
            delete_records(cluster, topic, offset, partition)
    return "all that was judged"


def roll_brokers(scene: Scene, chance: random.Random) -> str:
    """One broker after the other is shut down in order and started again."""
    cluster = chance.choice([scene.source, scene.target])
    for node in cluster.brokers:
        cluster.restart(node)
        scene.wait_healthy()
    return f"of {cluster.name}"


def fill_disk(scene: Scene, chance: random.Random) -> str:
    """A broker's disk is full, which ends the broker as a rule; it comes back when there is room."""
    refused = scene.disk.fill()
    broker = scene.target.brokers[SMALL].process
    seconds = chance.uniform(2, LONGEST_S)
    try:
        pause(seconds)
        ended = not broker.alive
    finally:
        scene.disk.grow()
        broker.kill()
        scene.target.restart(SMALL)
    return refused or f"node {SMALL}, {'ended by it' if ended else 'lived on'}, for {seconds:.1f} s"


def jump_clock(scene: Scene, chance: random.Random) -> str:
    """The driver's clock leaps ahead or back, and after a while to where it should be."""
    leap = chance.choice([-1, 1]) * chance.choice([chance.randint(2, 60), chance.randint(60, 30_000)])
    scene.jump_clock(leap)
    lasted = _last(chance)
    scene.jump_clock(0)
    return f"by {leap} s {lasted}"


def refuse_records(scene: Scene, chance: random.Random) -> str:
    """A remote topic takes no record for a while: by their sizes or by their times. Its partitions are held, the others
    are copied, and nothing of them is there twice when they go on by themselves."""
    remote = chance.choice(list(scene.remotes.values()))
    setting, refusing, taking = chance.choice(REFUSING[: 1 if scene.mode == "exactly-once" else 2])
    set_topic_config(scene.target, remote, {setting: refusing})
    try:
        lasted = _last(chance)
    finally:
        set_topic_config(scene.target, remote, {setting: taking})
    return f"{remote} by {setting} {lasted}"


REFUSING = (
    ("max.message.bytes", "80", "1048588"),
    ("message.timestamp.before.max.ms", "1", str(2**63 - 1)),
)
"""A setting, a value with which no record is taken, and one with which all are.

The second refuses the end of a transaction, too, and Kafka's coordinator does not try that again before its partition
moves (class TransactionMarkerRequestCompletionHandler, as of 4.3)."""

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
    "move source": move_source,
    "move target": move_target,
    "move internal": move_internal,
    "throttle source": throttle_source,
    "throttle target": throttle_target,
    "delete target": delete_target,
    "expire": expire,
    "roll brokers": roll_brokers,
    "fill disk": fill_disk,
    "jump clock": jump_clock,
    "refuse records": refuse_records,
}


def left_out(scene: Scene) -> dict[str, str]:
    """Faults that cannot be had here, with the reason."""
    return {"fill disk": scene.disk.refused} if scene.disk.refused else {}


def place_replicas(
    cluster: KafkaCluster, names: Iterable[str], partitions: int, copies: int, chance: random.Random
) -> None:
    """Give every partition so many replicas on brokers by chance, and let the first of them lead."""
    _place(cluster, dict.fromkeys(names, partitions), copies, chance)


def _place(cluster: KafkaCluster, partitions: Mapping[str, int], copies: int, chance: random.Random) -> None:
    """`partitions` are how many each topic has."""
    wanted = {
        TopicPartition(topic, partition): chance.sample(list(cluster.brokers), copies)
        for topic, count in partitions.items()
        for partition in range(count)
    }
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        admin.alter_partition_reassignments(wanted)
        # Partitions whose preferred replica leads already answer with an error of that name.
        admin.elect_leaders(0, {topic: list(range(count)) for topic, count in partitions.items()}, raise_errors=False)
    finally:
        admin.close()


def _moved(scene: Scene, cluster: KafkaCluster, topics: Sequence[str], chance: random.Random) -> str:
    """Away from a broker each, and after a while to all again; no fewer replicas than must be in sync."""
    brokers = len(cluster.brokers)
    for copies in (brokers - 1, brokers):
        place_replicas(cluster, topics, PARTITIONS, copies, chance)
        scene.wait_healthy()
        pause(chance.uniform(0, 2))
    return "away and back"


def _throttled(scene: Scene, cluster: KafkaCluster, rate: Rate, chance: random.Random) -> str:
    """For all clients; half the time a copier dies meanwhile, and leaves a request in a muted connection."""
    limit = chance.choice([5_000, 50_000])
    with quota(cluster, None, rate, limit):
        done = f"{limit:,} bytes/s {_last(chance)}"
        if chance.random() < 0.5:
            done += ", " + kill_worker(scene, chance)
            pause(chance.uniform(0, 2))
    return done


def _killed(cluster: KafkaCluster, chance: random.Random) -> str:
    """One broker, and at times all of them."""
    nodes = [chance.choice(list(cluster.brokers))] if chance.random() < 0.8 else list(cluster.brokers)
    for node in nodes:
        cluster.kill(node)
    away = chance.uniform(0, 2)
    pause(away)
    for node in nodes:
        cluster.restart(node, wait=False)
    cluster.wait_ready()
    return f"{_named(nodes)}, back after {away:.1f} s"


def _hanging(cluster: KafkaCluster, chance: random.Random) -> str:
    nodes = [chance.choice(list(cluster.brokers))] if chance.random() < 0.8 else list(cluster.brokers)

    def suspend() -> None:
        for node in nodes:
            cluster.suspend(node)

    def resume() -> None:
        for node in nodes:
            cluster.resume(node)

    with _suspended(suspend, resume):
        return f"{_named(nodes)}, {_last(chance)}"


def _named(nodes: Sequence[int]) -> str:
    return f"node {nodes[0]}" if len(nodes) == 1 else "all nodes"


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
