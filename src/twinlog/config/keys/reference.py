"""Writes `docs/configuration.md` from the key table.

Run as `python -m twinlog.config.keys.reference > docs/configuration.md`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from twinlog.config.keys.client import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from twinlog.config.keys.connect import CONNECT_KEYS, ONE_FLOW_KEYS
from twinlog.config.keys.connector import CHECKPOINT_KEYS, SOURCE_KEYS, TWINLOG_KEYS
from twinlog.config.keys.key import Effect, Key, UpdateMode
from twinlog.config.keys.process import PROCESS_KEYS
from twinlog.config.keys.security import SECURITY_KEYS
from twinlog.config.keys.worker import WORKER_KEYS, worker_file_keys

_INTRODUCTION = """\
# Configuration

<!-- Generated from the key table: python -m twinlog.config.keys.reference > docs/configuration.md -->

twinlog reads the properties file of a dedicated MirrorMaker 2 (`connect-mirror-maker`) as it is. This page lists every
key it knows. `twinlog check FILE` names every problem of a file with its line; `twinlog check FILE --explain KEY`
prints the value of a key in each flow, and the line that sets it.

## The smallest file

```properties
clusters = east, west
east.bootstrap.servers = east-1:9092
west.bootstrap.servers = west-1:9092
east->west.enabled = true
```

## Where a key may stand

| written as | counts for |
|---|---|
| `KEY` | every flow, or the whole process |
| `alias.KEY` | that cluster: connections, and the worker settings of flows whose target it is |
| `alias.consumer.KEY` | reading from that cluster |
| `alias.producer.KEY` | writing to that cluster |
| `alias.admin.KEY` | asking that cluster about topics, and creating them |
| `source->target.KEY` | that flow |

`source->target.KEY` wins over `alias.KEY`, that over `KEY`, that over the default. Exceptions that MirrorMaker 2 has
and twinlog keeps:

- A client setting of a flow, `A->B.consumer.x`, loses against `A.consumer.x`; `A->B.source.consumer.x` wins over both.
- The producer that writes records takes `B.producer.x` and `A->B.producer.override.x`, and ignores `A->B.producer.x`.
- A connection or security key below an alias counts for all three clients of that cluster, unless a client has its own.
- `offset.storage.*` at top level wins over the same key below an alias.

A key in a place where MirrorMaker 2 would drop it is reported as a warning with the place where it works.

## Settings for some topics

A key that the tables show as `KEY, KEY.PATTERN` may have another value for some topics. The pattern is a Java regular
expression that must match the whole name of the source topic. `KEY` alone counts for every topic outside of all
patterns:

```properties
east->west.KEY = VALUE
east->west.KEY.orders = VALUE
east->west.KEY.audit\\\\..* = VALUE
```

If several patterns match a topic, the pattern that spells out the topic's name wins, then the longest pattern; of two
equally long patterns the first in the alphabet wins. Lines may have any order. Each form is looked up by itself:
`A->B.KEY.orders` hides `KEY.orders` at top level, and `A->B.KEY` leaves it visible. In a properties file each backslash
of a key is written twice, and a backslash precedes each blank, `=` and `:`. In the configuration of a connector and in
a Strimzi resource the pattern is written as it is. `twinlog check FILE --explain KEY.orders` prints the form that
counts for the topic `orders`.

## What differs from MirrorMaker 2

- An unknown key stops the start and names the key that was probably meant; `twinlog.unknown.keys = warn` continues, and
  so does `connect-mirror-maker`, which reads files as MirrorMaker 2 does, except for keys that begin `twinlog.`.
- A value that is less safe than twinlog's behaviour is read as the stricter value, with a warning that names its line:
  `acks = 0` or `1` as `all`, more than 5 `max.in.flight.requests.per.connection` as 5, `enable.idempotence = false` as
  `true`.
- A comment after a value (`topics = .* # all`), which is part of the value in a properties file, is cut off with a
  warning.
- A UTF-8 byte order mark at the beginning of the file is left out, with a warning.
- A `${...}` reference to something missing, or to a provider that `config.providers` lacks, is an error as soon as a
  flow needs its value. MirrorMaker 2 takes the text of the reference for the value.
- Files that would copy too little are errors, for example `topics = orders payments`, or two sources that keep
  topic names for one target: see [Checking a file](check.md#files-that-would-copy-too-little).
- Work that repeats does so more often: the intervals for topics, groups, settings, ACLs, checkpoints and offsets of
  groups have shorter defaults, because only differences are written. A value in the file wins over the default. With an
  interval of 0, MirrorMaker 2 is always busy, and twinlog pauses for a tenth of a second.
- Regular expressions are Java's. Expressions beyond Python's are refused: classes inside classes, `&&`, Unicode classes
  as `\\p{L}`, and the flags `x`, `u` and `U`.
- The default of `topics.exclude` is that of Kafka 4.x, `mm2.*\\.internal, .*\\.replica, __.*`. Up to 3.9 it was
  `.*[\\-\\.]internal, .*\\.replica, __.*`: topics of your own that end in `.internal` or `-internal` were left out
  there and are mirrored here, unless the file sets `topics.exclude`.
- Remote topics grow with their source, also if MirrorMaker 2 fails to recognise them by their names
  ([no separator](#names-that-are-kept)).
- Two separators or policies in one file: each flow leaves out the topics that another flow brought from its target;
  MirrorMaker 2 copies them back for ever. Naming that was changed after topics had been copied stops the flow
  (`twinlog.renamed.topic.policy`).
- `auto.offset.reset` counts when the flow first starts with a topic. A topic or partition that appears later begins at
  its earliest record; MirrorMaker 2 with `latest` passes over the records that came until it found the topic: see
  [where a partition begins](delivery.md#begin-of-a-partition).
- Batches keep the codec of the source unless `producer.compression.type` names one.

## Names that are kept

A remote topic is called alias, separator, topic: `east.orders`. `source.cluster.alias` puts another alias there for
every flow, as `A->B.source.cluster.alias` does for a single flow, and `target.cluster.alias` is the target's. These
aliases and the separator may be empty. Names of topics, positions, checkpoints and heartbeats are then as MirrorMaker 2
has them; the topics and the group of the worker keep the alias that `clusters` lists, as in
`mm2-offsets.east.internal`:

| written | remote topic | position of | offset syncs, on the source | checkpoints |
|---|---|---|---|---|
| nothing | `east.orders` | `east` | `mm2-offset-syncs.west.internal` | `east.checkpoints.internal` |
| identity policy | `orders` | `east` | `mm2-offset-syncs.west.internal` | `east.checkpoints.internal` |
| S, separator empty | `orders` | (empty) | `mm2-offset-syncswestinternal` | `checkpointsinternal` |
| S, T, separator empty | `orders` | (empty) | `mm2-offset-syncsinternal` | `checkpointsinternal` |
| identity policy, S empty | `orders` | (empty) | `mm2-offset-syncs.west.internal` | `.checkpoints.internal` |
| separator empty | `eastorders` | `east` | `mm2-offset-syncswestinternal` | `eastcheckpointsinternal` |
| S empty | `.orders` | (empty) | `mm2-offset-syncs.west.internal` | `.checkpoints.internal` |
| S is `src` | `src.orders` | `src` | `mm2-offset-syncs.west.internal` | `src.checkpoints.internal` |

(For topic `orders` and `east->west`; S and T are `source.cluster.alias` and `target.cluster.alias`, the separator is
`replication.policy.separator`, and a position is stored with that `cluster` in its key.)

Many files keep names by the third or the fourth of these ways, from before the identity policy. Each of these files can
be taken over from MirrorMaker 2 and given back as it is: each of the two finds the positions of the other. Three things
follow if the separator is empty and the policy is the default policy, in MirrorMaker 2 and here:

- Settings of a remote topic are those of its source when it is created, and stay as they are afterwards. To have them
  kept in step, add `replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy` and leave the
  rest as it is, but for an empty `target.cluster.alias`, which has to go. Positions stay in their places. Keep the
  empty `source.cluster.alias`: otherwise positions would be looked for under the alias of the cluster, and every topic
  would be copied again behind its own copy.
- The topic `heartbeats` of the source is mirrored only if `topics` lets it through, and goes to the topic `heartbeats`
  of the target, among the heartbeats that are written there.
- Each letter of a name counts for an alias. If the target's alias is a single letter, for example `B`, topics with this
  letter before their last letter are left out: `Books` is left out. A warning names these topics; with a longer
  `A->B.target.cluster.alias`, or an empty alias, they are mirrored.

MirrorMaker 2 adds partitions only to remote topics whose names it recognises, and stops at the first record of a new
partition of all others; twinlog adds the partition. Names that are kept hide the origin of a topic: a file with two
directions that would copy a topic to and fro is refused, see [Active and active](guides/active-active.md);
MirrorMaker 2 copies the topic for ever. `connect-mirror-maker` starts with this file, and leaves the topic out in both
directions. If the identity policy meets the same alias for both clusters, MirrorMaker 2 mirrors heartbeats alone, and
so does twinlog, with a warning.

## Flows and heartbeats

A flow copies when the file has `A->B.enabled = true`. As in MirrorMaker 2, heartbeats are written from every cluster to
every other cluster, unless `emit.heartbeats.enabled = false` at top level or as `A->B.`: with n clusters, n·(n-1) flows
write to the `heartbeats` topic of their target, so that each flow has heartbeats of its source to mirror. For that each
cluster needs its `bootstrap.servers`. `--clusters` leaves only flows whose target it names; a target of disabled flows
alone gets only heartbeats, with a warning. A file whose flows are all disabled is refused, because `enabled` was
forgotten, unless it also sets `emit.heartbeats.enabled`; `connect-mirror-maker` then writes heartbeats with a warning;
MirrorMaker 2 does so silently.

## Settings that exclude each other

- `emit.offset-syncs.enabled = false` beside any `offset-syncs.topic.*` is an error: MirrorMaker 2 would refuse to copy.
- `emit.offset-syncs.enabled = false` also turns off checkpoints and offsets of groups, as in MirrorMaker 2; so does
  `emit.checkpoints.enabled = false`. A warning names a key that the file turns on and that is off for this reason.
- `A->B.exactly.once.support = required` is an error unless `B.exactly.once.source.support = enabled` and
  `A.consumer.isolation.level = read_committed`. If the latter is missing, exactly-once copying is warned of, because
  records of aborted transactions are copied too.
- `A->B.transaction.boundary = connector` is an error, in MirrorMaker 2 too.

## Classes of your own

`replication.policy.class`, `topic.filter.class`, `group.filter.class` and `config.property.filter.class` take
MirrorMaker 2's class names for the built-in classes, or [a Python class](custom-classes.md) as `package.module:Class`.
Java classes and a forwarding admin class of your own are refused. Published policies that keep the names of topics, as
Strimzi's and that of AWS's samples, are read as `IdentityReplicationPolicy`, with a warning; heartbeats are then called
as Kafka's own class calls them. For another class that keeps names write
`replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy`. `transform` takes [a Python
function](transforms.md) that changes records, `transforms` takes [Connect's own](smt.md).

## In a Connect worker

The same keys count for a Connect worker and its connectors, and their aliases are left out:

| written as | counts for |
|---|---|
| `KEY` in the worker's file | the worker, and its own connections |
| `producer.KEY` there | the producer that writes records |
| `twinlog.KEY` there | every connector |
| `KEY` of a connector | that connector |
| `source.cluster.KEY`, `target.cluster.KEY` | connecting to a cluster; the target is the worker's own by default |
| `source.consumer.KEY`, `consumer.KEY` | reading from the source |
| `producer.override.KEY` | writing to the target, if the worker's policy allows it |
| `source.admin.KEY`, `target.admin.KEY`, `admin.KEY` | asking a cluster about topics, and creating them |

`enabled` is true there unless a connector sets it, and `target.cluster.alias` is `target`. Records are written to
`target.cluster.bootstrap.servers` with its login; MirrorMaker 2 writes to the worker's cluster unless
`producer.override.bootstrap.servers` names another cluster. References to secrets are resolved by the providers of the
worker's file. An unknown key is a warning, and so is a key that is ignored at its place. The keys of a worker's own
file are at the [end of this page](#file-of-a-connect-worker).

## How to read the tables

The column *now* shows the effect of a key in this version: **works**; *Java*: it is accepted and reported once, but
configures a Java process and is ignored here; *broker*: the same for a key that configures brokers. A name ending in
`.*` means all keys that begin so. Values are shown as they count; in the file each backslash is written twice, as in
`topics.exclude = mm2.*\\\\.internal`.

The column *changed* shows the reaction of a running process once the file has another value and is [read
again](running.md#reload-the-file). **at once**: the flow takes the value over and keeps copying.
**pause**: the copiers of the flow end in order and begin again with the value, within a second or two. *restart*: the
value counts from the next start of the process on; until then the old value does.
"""

_WORKER_FILE = "File of a Connect worker"

_SECTIONS: tuple[tuple[str, str, tuple[Key, ...]], ...] = (
    ("Whole process", "Written at top level.", PROCESS_KEYS),
    ("twinlog's own", "Written at top level or as `A->B.KEY`.", TWINLOG_KEYS),
    ("Mirroring topics", "Written at top level or as `A->B.KEY`.", SOURCE_KEYS),
    ("One flow only", "Written as `A->B.KEY`.", ONE_FLOW_KEYS),
    ("Groups, checkpoints, heartbeats", "Written at top level or as `A->B.KEY`.", CHECKPOINT_KEYS),
    ("Connectors in general", "Written at top level or as `A->B.KEY`.", CONNECT_KEYS),
    (
        "Connection and security",
        "Written at top level, as `alias.KEY`, or below `alias.consumer.`, `alias.producer.` or `alias.admin.`.",
        SECURITY_KEYS,
    ),
    ("Consumer", "Written as `alias.consumer.KEY`.", CONSUMER_KEYS),
    ("Producer", "Written as `alias.producer.KEY`, or `A->B.producer.override.KEY`.", PRODUCER_KEYS),
    ("Admin client", "Written as `alias.admin.KEY`.", ADMIN_KEYS),
    (
        "Worker",
        (
            "Written as `alias.KEY`, with the alias of the target. Names that begin with `offset.storage`, "
            "`config.storage`, `status.storage`, `task`, `worker` or name a converter also count at top level."
        ),
        WORKER_KEYS,
    ),
    (
        _WORKER_FILE,
        (
            "Written in the file that `twinlog connect` takes, beside those of connection and security, `producer.KEY` "
            "and `twinlog.KEY`, which counts for every connector."
        ),
        tuple(key for key in worker_file_keys() if key not in TWINLOG_KEYS),
    ),
)

_OWN = ", or `package.module:Class`"
_EFFECTS = {Effect.WORKS: "**works**", Effect.JVM: "Java", Effect.BROKER: "broker"}
_TAKES = {
    UpdateMode.AT_ONCE: "**at once**",
    UpdateMode.PAUSE: "**pause**",
    UpdateMode.RESTART: "restart",
    UpdateMode.NOTHING: "",
}


def render() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRODUCTION]
    for title, where, keys in _SECTIONS:
        parts.append(f"\n## {title}\n\n{where}\n\n")
        # A worker's own file is read once.
        changed = title != _WORKER_FILE
        parts.append(f"| key | type | default | accepted | now |{' changed |' if changed else ''} meaning |\n")
        parts.append("|---" * (6 + changed) + "|\n")
        parts.extend(_row(key, changed=changed) for key in _sorted(keys))
    return "".join(parts)


def _sorted(keys: Iterable[Key]) -> list[Key]:
    order = list(_EFFECTS)
    return sorted(keys, key=lambda key: (order.index(key.effect), key.name))


def _row(key: Key, *, changed: bool) -> str:
    default = "" if key.default is None else f"`{_escaped(key.default)}`" if key.default else "(empty)"
    name = f"`{key.name}`, `{key.name}.PATTERN`" if key.per_topic else f"`{key.name}`"
    cells = [name, key.type, default, _escaped(_accepted(key)), _EFFECTS[key.effect]]
    if changed:
        cells.append(_TAKES[key.update_mode])
    cells.append(_escaped(key.doc + _instead(key)))
    return "| " + " | ".join(cells) + " |\n"


def _instead(key: Key) -> str:
    found = key.instead
    if found is None:
        return ""
    written = ", ".join(f"`{value}`" for value in found.written) or f"A number above {_number(key.maximum or 0)}"
    several = "are" if len(found.written) > 1 else "is"
    return f" {written} {several} read as `{found.value}`, with a warning."


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value:.6g}"


def _accepted(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    if key.accepted_classes:
        return ", ".join(f"`{name}`" for name in key.accepted_classes) + (_OWN if key.custom else "")
    if key.form is not None:
        return key.form.value
    parts = []
    if key.minimum is not None:
        least = _number(key.minimum)
        parts.append(f"from {least}" if key.maximum is None else f"{least} to {_number(key.maximum)}")
    if key.nonzero:
        parts.append("not 0")
    return ", ".join(parts)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(render())
