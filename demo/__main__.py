"""`python -m demo`: starts two clusters and twinlog, writes, shows, compares, and stops everything it started."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from demo.batches import Batches, batches
from demo.compare import compare
from demo.load import Load
from demo.mirror import FLOW, PROGRESS_TOPIC, SOURCE, TARGET, Mirror, hidden, properties
from demo.progress import Moment, Partition, Progress
from demo.records import TIMED, TOPICS
from harness.cluster import USERS, KafkaCluster
from harness.errors import HarnessError
from harness.jvm.jars import KAFKA_VERSION, kafka_classpath

USER = "mirrormaker"
PASSWORDS = {SOURCE: "mirrormaker1-secret", TARGET: "mirrormaker2-secret"}
WATCHER = "admin"
START_S = 180.0
STALLED_S = 30.0
INTERRUPTED = 130


def say(text: str = "") -> None:
    print(text, flush=True)


class Demo:
    """One run; `stack` stops what was started, in reverse order."""

    def __init__(self, options: argparse.Namespace, stack: ExitStack, home: Path) -> None:
        self._options = options
        self._stack = stack
        self._home = home
        self._began = time.monotonic()

    def run(self) -> bool:
        """True when everything was proven."""
        say("Two Kafka clusters on this machine, and twinlog between them.")
        say()
        source, target = self._start_clusters()
        mirror = self._start_twinlog(source, target)
        copied = self._copy(source, target, mirror)
        proven = self._prove(source, target, copied)
        if self._options.stay and proven:
            self._stay(source, target, mirror)
        code, seconds = mirror.stop()
        say(f"twinlog was stopped (SIGTERM) and ended with code {code} after {seconds:.1f} s.")
        self._stack.close()
        took = time.monotonic() - self._began
        say(f"Both clusters are stopped and their data is removed. The demo took {took:.0f} s.")
        return proven and code == 0

    def _start_clusters(self) -> tuple[KafkaCluster, KafkaCluster]:
        kafka_classpath()
        began = time.monotonic()
        clusters = []
        for name in (SOURCE, TARGET):
            users = {**USERS, USER: PASSWORDS[name]}
            cluster = KafkaCluster(name, users=users, work_dir=self._home / name)
            self._stack.callback(cluster.close)
            clusters.append(cluster.start_async())
        for cluster in clusters:
            cluster.wait_ready()
        say(f"Started {SOURCE} and {TARGET} (Kafka {KAFKA_VERSION}, SASL/PLAIN) in {time.monotonic() - began:.1f} s.")
        source, target = clusters
        admin = AdminClient(source.client_config(WATCHER))
        new = [NewTopic(topic.name, topic.partitions, 1, config=dict(topic.config)) for topic in TOPICS]
        made = admin.create_topics(new, operation_timeout=20)
        for future in made.values():
            future.result(30)
        say(f"Topics on {SOURCE}, with their partitions and their producers' codecs:")
        say("    " + ", ".join(f"{topic.name} ({topic.partitions}, {topic.codec})" for topic in TOPICS))
        return source, target

    def _start_twinlog(self, source: KafkaCluster, target: KafkaCluster) -> Mirror:
        file = self._home / "demo.properties"
        text = properties(source, target, USER)
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        mirror = Mirror(file, self._home)
        mirror.start()
        self._stack.callback(mirror.close)
        say()
        say("$ twinlog run demo.properties")
        for line in hidden(text).splitlines():
            if line:
                say(f"    {line}")
        return mirror

    def _copy(self, source: KafkaCluster, target: KafkaCluster, mirror: Mirror) -> int:
        """Write, watch, and wait until everything written is reported as copied; returns the number of records."""
        options = self._options
        load = Load(source, WATCHER, backlog=options.records, rate=options.rate)
        progress = Progress(target, WATCHER, PROGRESS_TOPIC, FLOW)
        self._stack.callback(progress.close)
        self._stack.callback(load.abandon)
        load.start()
        say()
        say(f"Writing {options.records:,} records while twinlog starts; once they are copied, {options.rate:,} a")
        say(f"second for {options.seconds} s. Delay: from writing to copy, the slowest of each second in {TIMED}.")
        say()
        say("  time      written       copied    records/s     MB/s          lag     delay")
        began = moved = tick = time.monotonic()
        copied = 0
        steady_until: float | None = None
        ends: dict[Partition, int] | None = None
        written = 0
        while True:
            tick += 1.0
            time.sleep(max(0.0, tick - time.monotonic()))
            mirror.process.require_alive()
            moment = progress.look()
            now = time.monotonic()
            say(_row(now - began, load.written, progress.copied, moment))
            if progress.copied > copied:
                moved, copied = now, progress.copied
            if ends is not None:
                if progress.reached(ends):
                    break
            elif steady_until is None:
                if copied >= options.records:
                    load.go_on()
                    steady_until = now + options.seconds
            elif now >= steady_until:
                written = load.finish()
                ends = _ends(source)
            patience = STALLED_S if copied else START_S
            if now - moved > patience:
                raise HarnessError(
                    f"twinlog copied nothing for {patience:g} s. Its log ends:\n{mirror.process.log_tail()}"
                )
        say()
        say(
            f"Everything written has been copied; fastest: {progress.fastest.record_rate:,.0f} records/s, "
            f"{progress.fastest.byte_rate / 1e6:,.0f} MB/s (compressed)."
        )
        return written

    def _prove(self, source: KafkaCluster, target: KafkaCluster, written: int) -> bool:
        began = time.monotonic()
        prefix = f"{SOURCE}."
        found = compare(source, target, WATCHER, {topic.name: topic.partitions for topic in TOPICS}, prefix)
        say()
        say(f"Read both clusters with librdkafka and compared them in {time.monotonic() - began:.1f} s:")
        if found.different or found.records != written:
            for difference in found.differences:
                say(f"  - {difference}")
            say(f"  - {found.different} differences; {found.records:,} pairs for {written:,} records written")
            return False
        say(
            f"  - all {written:,} records ({found.bytes / 1e6:,.0f} MB uncompressed) are in {prefix}<topic>: "
            "none is missing, none is there twice"
        )
        say(f"  - each in its partition ({len(found.partitions)} of them) and in its order")
        say("  - key, value, headers and timestamp of each are the same")
        return self._same_codecs(source, target, prefix)

    def _same_codecs(self, source: KafkaCluster, target: KafkaCluster, prefix: str) -> bool:
        names = [topic.name for topic in TOPICS]
        logs = batches({source: names, target: [prefix + name for name in names]})
        say("  - batches on the brokers' disks, as Kafka's own dump tool sees them:")
        alike = True
        for name in names:
            before, after = logs.get(name, Batches()), logs.get(prefix + name, Batches())
            codecs = " and ".join(sorted(after.codecs))
            if before.codecs != after.codecs:
                alike = False
                codecs += f", but {' and '.join(sorted(before.codecs))} on {SOURCE}"
            merged = " (small ones were merged)" if after.count < before.count else ""
            say(f"      {name:9} {before.count:6,} and {after.count:6,}  {codecs}{merged}")
        say()
        return alike

    def _stay(self, source: KafkaCluster, target: KafkaCluster, mirror: Mirror) -> None:
        say(f"Everything stays up until Ctrl-C. {SOURCE} is at {source.sasl_bootstrap}, {TARGET} at")
        say(f"{target.sasl_bootstrap}; without login: {source.bootstrap} and {target.bootstrap}.")
        say(f"twinlog's file, with the logins, and its log are in {self._home}.")
        try:
            while mirror.process.alive:
                time.sleep(0.2)
        except KeyboardInterrupt:
            say()


def _ends(cluster: KafkaCluster) -> dict[Partition, int]:
    """The end of every partition, as the cluster reports it."""
    consumer = Consumer({**cluster.client_config(WATCHER), "group.id": "demo"})
    try:
        return {
            (topic.name, number): int(consumer.get_watermark_offsets(TopicPartition(topic.name, number), timeout=20)[1])
            for topic in TOPICS
            for number in range(topic.partitions)
        }
    finally:
        consumer.close()


def _row(seconds: float, written: int, copied: int, moment: Moment) -> str:
    row = f"{seconds:4.0f} s {written:12,} {copied:12,}"
    if moment.lag < 0:
        return f"{row}   {'-' if copied else '(twinlog is starting)'}"
    delay = f"{moment.delay_ms:,} ms" if moment.delay_ms >= 0 else "-"
    return f"{row} {moment.record_rate:12,.0f} {moment.byte_rate / 1e6:8,.1f} {moment.lag:12,} {delay:>9}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo", description="Shows twinlog at work on this machine.")
    parser.add_argument(
        "--records", type=_count, default=200_000, help="records written at once (default: %(default)s)"
    )
    parser.add_argument("--rate", type=_count, default=5_000, help="records a second after that (default: %(default)s)")
    parser.add_argument("--seconds", type=_count, default=4, help="how long that goes on (default: %(default)s)")
    parser.add_argument("--stay", action="store_true", help="leave everything up until Ctrl-C")
    return parser.parse_args()


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
    return number


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Once is enough: stopping in order takes seconds and must not be cut short.
    for heard in (signal.SIGINT, signal.SIGTERM):
        signal.signal(heard, signal.SIG_IGN)
    raise KeyboardInterrupt


def main() -> int:
    options = _options()
    for heard in (signal.SIGINT, signal.SIGTERM):
        signal.signal(heard, _interrupt)
    home = Path(tempfile.mkdtemp(prefix="twinlog-demo-"))
    keep = False
    try:
        with ExitStack() as stack:
            proven = Demo(options, stack, home).run()
        keep = not proven
        return 0 if proven else 1
    except KeyboardInterrupt:
        say()
        say("Interrupted; everything the demo started is stopped.")
        return INTERRUPTED
    except (HarnessError, KafkaException, TimeoutError) as error:
        print(f"The demo cannot go on: {error}", file=sys.stderr, flush=True)
        keep = any(home.iterdir())
        return 1
    finally:
        if keep:
            print(f"Logs and data are kept in {home}.", file=sys.stderr, flush=True)
        else:
            shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
