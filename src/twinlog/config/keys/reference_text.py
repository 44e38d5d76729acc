"""The text of docs/configuration.md and docs/ignored-keys.md around the tables of keys: the rules of a file."""

from __future__ import annotations

INTRODUCTION = r"""# Configuration

<!-- Generated from the key table: make reference -->

twinlog reads the properties file of a dedicated MirrorMaker 2 (`connect-mirror-maker`) unchanged. This page has the
rules of the file, and every key that takes effect. All other keys of Kafka are in
[Keys without effect](ignored-keys.md).

```console
$ twinlog check mm2.properties
$ twinlog check mm2.properties --explain topics
```

`twinlog check FILE` names each problem of a file with its line. `--explain KEY` prints the value of a key in each flow,
and the line that sets the key.

## The smallest file

```properties
clusters = east, west
east.bootstrap.servers = east-1:9092
west.bootstrap.servers = west-1:9092
east->west.enabled = true
```

## Scope of a key

| written as | counts for |
|---|---|
| `KEY` | every flow, or the whole process |
| `alias.KEY` | this cluster: its connections, and the worker settings of flows with this target |
| `alias.consumer.KEY` | reads from this cluster |
| `alias.producer.KEY` | writes to this cluster |
| `alias.admin.KEY` | requests about topics of this cluster, and their creation |
| `source->target.KEY` | this flow |

The most exact form wins: first `source->target.KEY`, then `alias.KEY`, then `KEY`, then the default. For example, with
`tasks.max = 2` and `east->west.tasks.max = 8` the flow `east->west` has up to 8 tasks, and every other flow up to 2.
Four exceptions are as in MirrorMaker 2:

- `A.consumer.x` wins over `A->B.consumer.x`. `A->B.source.consumer.x` wins over both.
- The producer of records takes `B.producer.x` and `A->B.producer.override.x`, and ignores `A->B.producer.x`.
- A connection or security key below an alias counts for all three clients of this cluster. The client's own key wins.
- `offset.storage.*` at top level wins over the same key below an alias.

If MirrorMaker 2 drops a key at its place, twinlog warns and names the effective place.

## Settings for some topics

A key that the tables show as `KEY, KEY.PATTERN` can have another value for some topics. The pattern is a Java regular
expression that matches the whole name of the source topic. `KEY` counts for all other topics:

```properties
east->west.KEY = VALUE
east->west.KEY.orders = VALUE
east->west.KEY.audit\\..* = VALUE
```

- If several patterns match a topic, the exact name wins, then the longest pattern, then the first pattern in the
  alphabet. The order of lines is free.
- `A->B.KEY.orders` hides only `KEY.orders` at top level, and `A->B.KEY` hides only `KEY`.
- In a properties file write each backslash of a key twice, and a backslash before each blank, `=` and `:`. In a
  connector and in a Strimzi resource write the pattern as it is.
- `twinlog check FILE --explain KEY.orders` prints the form that counts for the topic `orders`.

## What differs from MirrorMaker 2

| subject | MirrorMaker 2 | twinlog |
|---|---|---|
"""

DIFFERENCES: tuple[tuple[str, str, str], ...] = (
    (
        "an unknown key",
        "ignores the key",
        (
            "stops the start, and names a similar key. `twinlog.unknown.keys = warn` only warns; so does "
            "`connect-mirror-maker`, except for keys that begin `twinlog.`"
        ),
    ),
    (
        "unsafe values",
        "uses them",
        (
            "reads `acks = 0` or `1` as `all`, more than 5 `max.in.flight.requests.per.connection` as 5, and "
            "`enable.idempotence = false` as `true`, each with a warning"
        ),
    ),
    (
        "a comment after a value (`topics = .* # all`)",
        "part of the value",
        "cut off, with a warning",
    ),
    (
        "a UTF-8 byte order mark",
        "part of the first key",
        "left out, with a warning",
    ),
    (
        "`${...}` for a missing value, or for a provider outside of `config.providers`",
        "the text itself is the value",
        "an error when a flow needs the value",
    ),
    (
        "files that would copy too little, for example `topics = orders payments`",
        "starts",
        "an error: see [Checking a file](plan.md#files-that-would-copy-too-little)",
    ),
    (
        "intervals of repeated work",
        "60 or 600 s",
        "1 to 30 s, because twinlog writes only differences. A value in the file wins",
    ),
    (
        "an interval of 0",
        "always busy",
        "pauses for a tenth of a second",
    ),
    (
        "regular expressions",
        "Java's",
        (
            r"Java's, except for classes inside classes, `&&`, Unicode classes as `\p{L}`, and the flags `x`, `u` "
            "and `U`, which are errors"
        ),
    ),
    (
        "default of `topics.exclude`",
        r"up to 3.9: `.*[\-\.]internal, .*\.replica, __.*`",
        (
            r"as in Kafka 4.x: `mm2.*\.internal, .*\.replica, __.*`. Your own topics that end in `.internal` or "
            "`-internal` are mirrored, unless the file sets `topics.exclude`"
        ),
    ),
    (
        "new partitions of a source topic",
        "added if the name of the remote topic is recognised",
        "added always",
    ),
    (
        "two separators or policies in a file",
        "copies topics back for ever",
        "each flow leaves out the topics that another flow brought from its target",
    ),
    (
        "another naming after a copy",
        "starts",
        "stops the flow: `twinlog.renamed.topic.policy`",
    ),
    (
        "`auto.offset.reset`",
        "counts for every new partition: with `latest`, records that come before the topic is found are skipped",
        (
            "counts when the flow first starts with a topic; later topics and partitions begin at their earliest "
            "record: see [where a partition begins](delivery.md#begin-of-a-partition)"
        ),
    ),
    (
        "codec of batches",
        "`producer.compression.type`, by default `none`",
        "the source's codec, unless `producer.compression.type` names another codec",
    ),
)

RULES = r"""
## Names that are kept

A remote topic is called alias, separator, topic: `east.orders`. Three keys change names:

- `source.cluster.alias` (for a single flow `A->B.source.cluster.alias`) puts another alias there, or an empty text.
- `target.cluster.alias` is the alias of the target in internal topics, or an empty text.
- `replication.policy.separator` is the separator, or an empty text.

Names of topics, positions, checkpoints and heartbeats are then as in MirrorMaker 2. The topics and the group of the
worker keep the alias of `clusters`, as in `mm2-offsets.east.internal`. For topic `orders` and `east->west`:

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

(S is `source.cluster.alias`, T is `target.cluster.alias`, the separator is `replication.policy.separator`. A position
is stored with the third column as `cluster` in its key.)

Many files from before the identity policy keep names by an empty separator. twinlog takes over each of these files, and
MirrorMaker 2 takes the file back: each program finds the positions of the other program. With an empty separator and
the default policy three rules count, as in MirrorMaker 2:

- A remote topic keeps the settings of its creation. To keep settings in step, add
  `replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy`, and remove an empty
  `target.cluster.alias`. Keep the empty `source.cluster.alias`: otherwise twinlog looks for positions under the
  cluster's alias, and copies every topic again behind its own copy.
- The topic `heartbeats` of the source is mirrored only if `topics` matches it. Its records go to the topic `heartbeats`
  of the target, among the target's own heartbeats.
- Each letter of a name counts for an alias. If the target's alias is a single letter, for example `B`, topics with this
  letter before their last letter are left out, as `Books`, with a warning. With a longer
  `A->B.target.cluster.alias`, or an empty alias, these topics are mirrored.

Kept names hide the origin of a topic. A file with two directions that would copy a topic to and fro is an error: see
[Active and active](guides/active-active.md). `connect-mirror-maker` starts, and leaves the topic out in both
directions; MirrorMaker 2 copies the topic for ever. With the identity policy and the same alias for both clusters,
twinlog mirrors heartbeats alone, with a warning, as MirrorMaker 2 does.

## Flows and heartbeats

A flow copies if the file has `A->B.enabled = true`. Heartbeats are written from every cluster to every other cluster,
as in MirrorMaker 2. To turn heartbeats off, set `emit.heartbeats.enabled = false`, or
`A->B.emit.heartbeats.enabled = false` for a flow. With n clusters, n·(n-1) flows write to the `heartbeats` topic of
their target, and each cluster needs its `bootstrap.servers`.

`--clusters` keeps only flows with the named targets. If all flows to a target are disabled, the target gets only
heartbeats, with a warning. A file without an enabled flow is an error, unless the file sets `emit.heartbeats.enabled`;
`connect-mirror-maker` starts with a warning, and writes heartbeats.

## Settings that exclude each other

- `emit.offset-syncs.enabled = false` beside any `offset-syncs.topic.*` is an error: MirrorMaker 2 refuses to copy.
- `emit.offset-syncs.enabled = false`, and `emit.checkpoints.enabled = false`, also turn off checkpoints and offsets of
  groups, as in MirrorMaker 2. A warning names each key that the file turns on in vain.
- `A->B.exactly.once.support = required` is an error without `B.exactly.once.source.support = enabled` and
  `A.consumer.isolation.level = read_committed`.
- Exactly-once copying without `read_committed` is a warning: twinlog copies records of aborted transactions, too.
- `A->B.transaction.boundary = connector` is an error, as in MirrorMaker 2.

## Classes of your own

- `replication.policy.class`, `topic.filter.class`, `group.filter.class` and `config.property.filter.class` take Kafka's
  built-in classes, or [a Python class](transforms.md#classes) as `package.module:Class`.
- `transform` takes [a Python function](transforms.md) that changes records.
- `transforms` takes [Connect's transforms](transforms.md#connects-transforms).

Your own Java classes and a forwarding admin class of your own are errors. Published policies that keep topic names, for
example Strimzi's policy or the policy of AWS's samples, are read as `IdentityReplicationPolicy`, with a warning;
heartbeats then have the names of Kafka's own class. For another class that keeps names write
`replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy`.

## In a Connect worker

The same keys count for a Connect worker and its connectors, without aliases:

| written as | counts for |
|---|---|
| `KEY` in the worker's file | the worker, and its own connections |
| `producer.KEY` in the worker's file | the producer of records |
| `twinlog.KEY` in the worker's file | every connector |
| `KEY` of a connector | this connector |
| `source.cluster.KEY`, `target.cluster.KEY` | connections; the default target is the worker's cluster |
| `source.consumer.KEY`, `consumer.KEY` | reads from the source |
| `producer.override.KEY` | writes to the target, if the worker's policy allows the key |
| `source.admin.KEY`, `target.admin.KEY`, `admin.KEY` | requests about topics of a cluster, and their creation |

- `enabled` is true unless a connector sets it, and `target.cluster.alias` is `target`.
- twinlog writes records to `target.cluster.bootstrap.servers` with its login. MirrorMaker 2 writes to the worker's
  cluster, unless `producer.override.bootstrap.servers` names another cluster.
- Providers of the worker's file resolve references to secrets.
- An unknown key, or a key that is ignored at its place, is a warning.

All keys of a worker's own file are at the [end of this page](#file-of-a-connect-worker).

## How to read the tables

- A name ending in `.*` means all keys that begin so.
- Entries of a list are separated by commas.
- Values are shown as they count. In the file each backslash is written twice, as in
  `topics.exclude = mm2.*\\.internal`.

The column *changed* has the reaction of a running process to another value, once the process [reads the file
again](running.md#reload-the-file):

| changed | reaction |
|---|---|
| **at once** | the flow takes the value and keeps copying |
| **pause** | the flow's copiers end in order, and begin again with the value within a second or two |
| restart | the value counts from the next start of the process |

In a table without this column every key needs a restart.
"""

END = """
Next: [Keys without effect](ignored-keys.md), [Check a file](plan.md#check-a-file), [Commands](commands.md).
"""

IGNORED = """\
# Keys without effect

<!-- Generated from the key table: make reference -->

twinlog accepts these keys of MirrorMaker 2, Kafka Connect and Kafka's clients, reports them in a warning, and ignores
them. A name ending in `.*` means all keys that begin so.
"""
