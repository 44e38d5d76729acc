"""What a run left on the clusters, as facts that a second run should leave just so."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from conformance.corpus.case import Case, Copies
from harness.checks.differences import Facts, Known
from harness.checks.leftovers import Leftovers, leftovers
from harness.cluster import KafkaCluster
from harness.consume import consume_topics, ends
from harness.groups import group_offsets
from harness.topics import topics

INTERNAL = ("mm2-", "__")
USERS = ("device.heartbeats",)

KNOWN = (
    Known(
        r"topic mm2-(configs|status)\b.*",
        "Connect's own topics: twinlog reads its settings from the file and reports its state otherwise.",
    ),
    Known(r"topic mm2-twinlog-.*", "twinlog's own topics, for what MirrorMaker 2 has no place for."),
    Known(
        r"topic mm2-offsets\b.*",
        "A flow that only writes heartbeats needs no position; and twinlog bounds the topic.",
        one="1|compact|\\d+|",
        other="1|compact|\\d+|\\d+.*|",
    ),
    Known(
        r'position in .*: \["[^"]*",\{("partition":\d+,"topic":"[^"]*","group"|"sourceClusterAlias").*',
        "Connect stores these of checkpoints and heartbeats for form's sake; MirrorMaker 2 never reads them.",
    ),
    Known(
        r'position in .*heartbeats"\}\]|offset sync in .*heartbeats-0',
        "Heartbeats go on all the time; how many were copied is chance.",
    ),
    Known(
        r"topic (.*heartbeats|.*checkpoints.*internal|mm2-offset(s|-syncs).*): "
        r"(segment\.(ms|bytes)|min\.cleanable\.dirty\.ratio|max\.compaction\.lag\.ms)",
        "twinlog bounds internal topics, so that brokers clean them; MirrorMaker 2 leaves that to a week or 1 GiB.",
    ),
)
"""Differences that are wanted, whatever the file."""

WITHOUT_HEARTBEATS = Known(
    r"topic (.*\.)?heartbeats: .*",
    "MirrorMaker 2 creates the topic of heartbeats, and copies it, where heartbeats are off; twinlog does not.",
    other="",
)


def observe(clusters: Mapping[str, KafkaCluster], case: Case) -> Facts:
    """Topics, records, groups and what is stored on the clusters of a case."""
    found: dict[str, str] = {}
    for name in case.clusters:
        cluster = clusters[name]
        left = leftovers(cluster, USERS)
        found |= {f"{name}: {fact}": value for fact, value in left.facts().items()}
        found |= {f"{name}: {fact}": value for fact, value in _records(cluster, left).items()}
    return found


def _records(cluster: KafkaCluster, left: Leftovers) -> Facts:
    """Of each partition how many records it has, and a digest of all that a copy must keep of them, in their order."""
    plain = [topic for topic in left.topics if not topic.startswith(INTERNAL) and topic not in left.heartbeats]
    wanted = [topic for topic in plain if topic not in left.checkpoints]
    found = {}
    for topic, records in consume_topics(cluster, wanted).items():
        for partition in range(left.topics[topic].partitions):
            mine = [record for record in records if record.partition == partition]
            digest = hashlib.sha256(repr([record.content for record in mine]).encode()).hexdigest()
            found[f"records of {topic}-{partition}"] = f"{len(mine)}, digest {digest[:12]}"
    return found


def missing(clusters: Mapping[str, KafkaCluster], case: Case) -> list[str]:
    """What MirrorMaker 2 has not done yet of a case, in words; empty once it has done all."""
    found = [
        f"heartbeats on {name}" for name in case.beats if not ends(clusters[name], ["heartbeats"]).get("heartbeats")
    ]
    for copies in case.copies:
        found += _missing(clusters[copies.target], copies)
    return found


def _missing(target: KafkaCluster, copies: Copies) -> list[str]:
    wanted = copies.records()
    beats = [f"{copies.prefix}heartbeats"] if copies.heartbeats else []
    there = topics(target)
    counts = ends(target, [topic for topic in (*wanted, *beats) if topic in there])
    found = [
        f"{topic}: {counts.get(topic, 0)} of {count}" for topic, count in wanted.items() if counts.get(topic, 0) < count
    ]
    found += [f"records in {topic}" for topic in beats if not counts.get(topic)]
    if found or not copies.groups:
        return found
    left = leftovers(target, USERS)
    reached = {
        (one.group, one.topic, one.partition): one.downstream for some in left.checkpoints.values() for one in some
    }
    committed = group_offsets(target, copies.groups) if copies.synced else {}
    for group, places in copies.ends().items():
        for (topic, partition), end in places.items():
            if reached.get((group, topic, partition)) != end:
                found.append(f"a checkpoint of {group} at {topic}-{partition} {end}")
            at = committed.get(group, {}).get((topic, partition))
            if copies.synced and (at is None or at.offset != end):
                found.append(f"group {group} at {topic}-{partition} {end}")
    return found
