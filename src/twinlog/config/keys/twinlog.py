"""Keys that twinlog adds to the keys of Kafka: of a flow, and in a Connect worker's file."""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import AT_ONCE, PAUSE, RESTART, Key, KeyType, Level, ValueForm, setting
from twinlog.settings.flow import LEAST_COPIER_MEMORY_BYTES, FlowSettings
from twinlog.settings.worker import WorkerSettings

BOOL, INT, LONG = KeyType.BOOL, KeyType.INT, KeyType.LONG
LIST, STRING, ENUM = KeyType.LIST, KeyType.STRING, KeyType.ENUM

_flow = partial(Key, level=Level.FLOW)
_flow_setting = partial(setting, FlowSettings, level=Level.FLOW)
_worker_setting = partial(setting, WorkerSettings, level=Level.PROCESS)

TWINLOG_KEYS = (
    _flow(
        "transform",
        STRING,
        None,
        "Python function that [changes records](transforms.md): `pa.RecordBatch -> pa.RecordBatch`.",
        form=ValueForm.FUNCTION,
        update=RESTART,
    ),
    _flow(
        "transform.sql",
        STRING,
        None,
        "Query of Spark SQL that [changes records](transforms.md#sql): `SELECT ... FROM records ...`.",
        update=RESTART,
    ),
    _flow(
        "twinlog.start",
        STRING,
        None,
        "Begin of a topic, in place of `auto.offset.reset`, when the flow [first "
        "starts](delivery.md#begin-of-a-partition) with the topic.",
        form=ValueForm.START,
        per_topic=True,
        update=RESTART,
    ),
    _flow_setting(
        "twinlog.offsets",
        ENUM,
        "Offsets of copies: `translated` are the next offsets of the remote topic, `identical` are [the offsets of the "
        "source](identical-offsets.md).",
        choices=("translated", "identical"),
        per_topic=True,
        update=PAUSE,
    ),
    _flow_setting(
        "twinlog.fence.writers",
        BOOL,
        "Whether ACLs keep [other logins](identical-offsets.md#topics-that-may-have-it) from remote topics with the "
        "offsets of their sources.",
        update=AT_ONCE,
    ),
    _flow_setting(
        "twinlog.gap.policy",
        ENUM,
        "Action when the source lost records before their copy (retention, truncation, a recreated topic): "
        "`hold` the partition, `skip` the gap (`continue` is its old name), or `stop` the flow.",
        choices=("hold", "skip", "continue", "stop"),
        per_topic=True,
        update=PAUSE,
    ),
    _flow_setting(
        "twinlog.proof",
        BOOL,
        "Whether the remote topic is read behind the copying, and [proven equal](proof.md) to the answers of the "
        "source; without effect on heartbeats, and refused together with a transform.",
        per_topic=True,
        update=PAUSE,
    ),
    _flow_setting(
        "twinlog.difference.policy",
        ENUM,
        "Action when the proof finds a difference: `hold` the partition, `report` the difference and continue, or "
        "`stop` the flow.",
        choices=("hold", "report", "stop"),
        per_topic=True,
        update=PAUSE,
    ),
    _flow_setting(
        "twinlog.renamed.topic.policy",
        ENUM,
        "Action when a topic was copied to another remote name before: `stop` the flow, `continue` with later "
        "records under the new name, or `restart` with all records.",
        choices=("stop", "continue", "restart"),
        update=AT_ONCE,
    ),
    _flow_setting(
        "twinlog.oversized.record.policy",
        ENUM,
        "Action for a record above `max.message.bytes` of the remote topic: `hold` the partition, `skip` the "
        "record, write the record to the `dead-letter` topic (`errors.deadletterqueue.topic.name`), or `stop` "
        "the flow. With `errors.tolerance = all` the default is `skip`, or `dead-letter` if that topic is named.",
        choices=("hold", "skip", "dead-letter", "stop"),
        per_topic=True,
        update=PAUSE,
    ),
    _flow_setting(
        "twinlog.refused.record.policy",
        ENUM,
        "The same actions for a record that the target refuses for another reason, for example a timestamp "
        "beyond `message.timestamp.after.max.ms`, or a missing key in a compacted topic.",
        choices=("hold", "skip", "dead-letter", "stop"),
        per_topic=True,
        update=PAUSE,
    ),
    _flow_setting(
        "twinlog.lease.seconds",
        INT,
        "Longest duration of a Spark micro-batch in seconds; 30 while records are copied.",
        minimum=5,
        maximum=86_400,
        update=RESTART,
    ),
    _flow_setting(
        "twinlog.position.interval.ms",
        INT,
        "Milliseconds until a position is stored; four times as long for a partition that is copied all the time.",
        minimum=50,
        maximum=1000,
        update=RESTART,
    ),
    _flow_setting(
        "twinlog.copier.memory.bytes",
        LONG,
        "Bytes of records that a copier holds between read and append; a copier has some 100 MB besides.",
        minimum=LEAST_COPIER_MEMORY_BYTES,
        update=RESTART,
    ),
)

TWINLOG_WORKER_KEYS = (
    _worker_setting(
        "twinlog.connector.classes",
        LIST,
        "Python classes for connectors, as `package.module:Class`, or `package.module` for all classes of a module.",
    ),
    _worker_setting(
        "twinlog.healthy.before.group",
        BOOL,
        "`/health` answers 200 while the worker waits for workers of another kind to leave its group: a rolling "
        "replacement of Kafka's workers then continues.",
    ),
)
