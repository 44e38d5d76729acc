"""Writes `docs/configuration.md` from the key table: `python -m twinlog.config.reference > docs/configuration.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from twinlog.config.key import Effect, Key
from twinlog.config.keys_client import ADMIN_KEYS, CONSUMER_KEYS, PRODUCER_KEYS
from twinlog.config.keys_connect import CONNECT_KEYS, ONE_FLOW_KEYS
from twinlog.config.keys_connector import CHECKPOINT_KEYS, SOURCE_KEYS, TWINLOG_KEYS
from twinlog.config.keys_process import PROCESS_KEYS
from twinlog.config.keys_security import SECURITY_KEYS
from twinlog.config.keys_worker import WORKER_KEYS
from twinlog.config.keys_worker_file import worker_file_keys

_INTRODUCTION = """\
# Configuration

<!-- Generated from the key table: python -m twinlog.config.reference > docs/configuration.md -->

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
| `alias.KEY` | one cluster: connections, and the worker settings of flows whose target it is |
| `alias.consumer.KEY` | reading from that cluster |
| `alias.producer.KEY` | writing to that cluster |
| `alias.admin.KEY` | asking that cluster about topics, and creating them |
| `source->target.KEY` | one flow |

`source->target.KEY` wins over `alias.KEY`, that over `KEY`, that over the default. Exceptions that MirrorMaker 2 has
and twinlog keeps:

- A client setting of a flow, `A->B.consumer.x`, loses against `A.consumer.x`; `A->B.source.consumer.x` wins over both.
- The producer that writes records takes `B.producer.x` and `A->B.producer.override.x`, but not `A->B.producer.x`.
- A connection or security key below an alias counts for all three clients of that cluster, unless one has its own.
- `offset.storage.*` at top level wins over the same key below an alias.

A key in a place where MirrorMaker 2 would drop it is reported as a warning with the place where it works.

## What differs from MirrorMaker 2

- An unknown key stops the start and names the key that was probably meant; `twinlog.unknown.keys = warn` goes on, and
  so does `connect-mirror-maker`, which reads files as MirrorMaker 2 does, except for keys that begin `twinlog.`.
- A comment after a value (`topics = .* # all`), which a properties file does not have, is cut off with a warning.
- A UTF-8 byte order mark at the beginning of the file is left out, with a warning.
- A `${...}` reference to something missing is an error as soon as a flow needs its value.
- Work that repeats does so more often: the intervals for topics, groups, settings, ACLs, checkpoints and offsets of
  groups have shorter defaults, because only what differs is written. A value in the file wins over the default. Where
  MirrorMaker 2 takes an interval of 0 to mean never to pause, twinlog pauses for a tenth of a second.
- Regular expressions are Java's. What Python cannot express is refused: classes inside classes, `&&`, Unicode classes
  such as `\\p{L}`, and the flags `x`, `u` and `U`.
- The default of `topics.exclude` is that of Kafka 4.x, `mm2.*\\.internal, .*\\.replica, __.*`. Up to 3.9 it was
  `.*[\\-\\.]internal, .*\\.replica, __.*`: topics of your own that end in `.internal` or `-internal` were left out
  there and are mirrored here, unless the file sets `topics.exclude`.
- Two separators or policies in one file: each flow leaves out what another one brought from its target, where
  MirrorMaker 2 copies it back for ever. Naming that was changed after topics had been copied stops the flow
  (`twinlog.renamed.topic.policy`).
- Batches keep the codec of the source unless `producer.compression.type` names one.

## Flows and heartbeats

A flow copies when `A->B.enabled = true` stands in the file. As in MirrorMaker 2, heartbeats are written from every
cluster to every other one, unless `emit.heartbeats.enabled = false` at top level or as `A->B.`: with n clusters,
n·(n-1) flows write to the `heartbeats` topic of their target, so that each flow has heartbeats of its source to mirror.
For that each cluster needs its `bootstrap.servers`. `--clusters` leaves only flows whose target it names; where no
enabled flow leads, heartbeats alone are written, with a warning. A file in which no flow at all is enabled is refused,
because one was forgotten, unless it also sets `emit.heartbeats.enabled`.

## Settings that exclude each other

- `emit.offset-syncs.enabled = false` beside any `offset-syncs.topic.*` is an error: MirrorMaker 2 would not copy.
- `emit.offset-syncs.enabled = false` means no checkpoints and no offsets of groups either, as in MirrorMaker 2; so does
  `emit.checkpoints.enabled = false`. A warning names what the file turns on and is off for such a reason.
- `A->B.exactly.once.support = required` is an error unless `B.exactly.once.source.support = enabled` and
  `A.consumer.isolation.level = read_committed`. Without the latter exactly-once copying is warned of, because records
  of aborted transactions are copied too.
- `A->B.transaction.boundary = connector` is an error, in MirrorMaker 2 too.

## Classes of your own

`replication.policy.class`, `topic.filter.class`, `group.filter.class` and `config.property.filter.class` take
MirrorMaker 2's class names for what is built in, or [a Python class](custom-classes.md) as `package.module:Class`. Java
classes and a forwarding admin class of your own cannot be loaded, and are refused. `transform` takes [a Python
function](transforms.md) that changes records, `transforms` takes [Connect's own](smt.md).

## In a Connect worker

The same keys count for a Connect worker and its connectors, where nothing is written below an alias:

| written as | counts for |
|---|---|
| `KEY` in the worker's file | the worker, and its own connections |
| `producer.KEY` there | the producer that writes records |
| `twinlog.KEY` there | every connector |
| `KEY` of a connector | that connector |
| `source.cluster.KEY`, `target.cluster.KEY` | connecting to a cluster; the target is the worker's own without any |
| `source.consumer.KEY`, `consumer.KEY` | reading from the source |
| `producer.override.KEY` | writing to the target, where the worker's policy allows it |
| `source.admin.KEY`, `target.admin.KEY`, `admin.KEY` | asking a cluster about topics, and creating them |

`enabled` is true there unless a connector sets it, and `target.cluster.alias` is `target`. Records are written
to `target.cluster.bootstrap.servers` with its login, where MirrorMaker 2 writes to the worker's cluster as long as no
`producer.override.bootstrap.servers` names another. References to secrets are resolved by the providers of the
worker's file. An unknown key is a warning, and so is one that has no effect where it stands. What a worker's own file
may hold is at the [end of this page](#file-of-a-connect-worker).

## How to read the tables

The column *now* shows what a key does in this version: **works**; *Java*: it is accepted and reported once, but
configures a Java process and has no effect here; *broker*: the same for a key that configures brokers.
A name ending in `.*` stands for all keys that begin so. Values are shown as they count; in the file each backslash is
written twice, as in `topics.exclude = mm2.*\\\\.internal`.
"""

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
        "File of a Connect worker",
        (
            "Written in the file that `twinlog connect` takes, beside those of connection and security, `producer.KEY` "
            "and `twinlog.KEY`, which counts for every connector."
        ),
        tuple(key for key in worker_file_keys() if key not in TWINLOG_KEYS),
    ),
)

_OWN = ", or `package.module:Class`"
_EFFECTS = {Effect.WORKS: "**works**", Effect.JVM: "Java", Effect.BROKER: "broker"}


def render() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRODUCTION]
    for title, where, keys in _SECTIONS:
        parts.append(f"\n## {title}\n\n{where}\n\n")
        parts.append("| key | type | default | accepted | now | meaning |\n|---|---|---|---|---|---|\n")
        parts.extend(_row(key) for key in _sorted(keys))
    return "".join(parts)


def _sorted(keys: Iterable[Key]) -> list[Key]:
    order = list(_EFFECTS)
    return sorted(keys, key=lambda key: (order.index(key.effect), key.name))


def _row(key: Key) -> str:
    default = "" if key.default is None else f"`{_escaped(key.default)}`" if key.default else "(empty)"
    cells = (f"`{key.name}`", key.type, default, _escaped(_accepted(key)), _EFFECTS[key.effect], _escaped(key.doc))
    return "| " + " | ".join(cells) + " |\n"


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
