"""Messages about held partitions, gaps and lost records."""

from __future__ import annotations

from twinlog.explain.message import COPIES_NOTHING, ONE_PARTITION_WAITS, UNAFFECTED, Area, Message, Page

_HELD = Area(
    name="HELD",
    title="Held partitions",
    about=(
        "twinlog holds a partition at an uncopyable record, and copies all other partitions. Each reason has an id of "
        "its own: see the areas GAP, RECORD, RIGHT, TARGET and START."
    ),
    look=(
        "twinlog status mm2.properties",
        "twinlog topics list mm2.properties",
    ),
    messages=(
        Message(
            "TW-HELD-01",
            "Partitions are held",
            "warning",
            lines=("`N partitions are held (...); twinlog status names them`",),
            meaning="twinlog holds many partitions for the same cause.",
            impact="The records of the held partitions wait on the source, and retention may delete them.",
            mend=(
                "Run `twinlog status`: the command names each held partition with its id, the reason and the way out."
            ),
        ),
        Message(
            "TW-HELD-02",
            "A partition is copied again",
            "info",
            lines=("`copied again, held no more: ...`",),
            meaning="twinlog copies these partitions again.",
            impact=UNAFFECTED,
            mend="For information only.",
            in_line=False,
        ),
        Message(
            "TW-HELD-03",
            "A run is done but for held partitions",
            "error",
            lines=("`caught up, but for held partitions: ...`",),
            meaning=(
                "`--until-caught-up` has copied all other partitions, and has tried each held partition again in vain."
            ),
            impact="Records of the held partitions are missing on the target.",
            mend=("Run `twinlog status`, follow the way out of each held partition, and run the command again."),
        ),
    ),
)

_GAP = Area(
    name="GAP",
    title="Gaps in the source",
    about=(
        "The source has lost records before twinlog copied them. `twinlog.gap.policy` decides between holding the "
        "partition and continuing after the gap."
    ),
    look=(
        "twinlog status mm2.properties",
        "twinlog topics list mm2.properties",
        "kafka-get-offsets.sh --bootstrap-server HOST:PORT --topic T --time earliest",
    ),
    escalate=(
        "Tell the owners of the topic which offsets are missing: the line names the first and the last offset. "
        "Records that only the source had are lost."
    ),
    messages=(
        Message(
            "TW-GAP-01",
            "Records were deleted before they were copied",
            "error",
            lines=(
                "`gap: ... were deleted before they were copied`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning="Retention deleted records before the flow read them.",
            impact=(
                "The deleted records are missing on the target for good. With the policy `hold` later records of the "
                "partition wait."
            ),
            mend=(
                "Run `twinlog topics accept-gap mm2.properties T-0` to continue after the gap; then set a longer "
                "retention on the source, or more tasks (`tasks.max`). See [gaps](running.md#gaps)."
            ),
        ),
        Message(
            "TW-GAP-02",
            "The source log was cut back",
            "error",
            lines=(
                "`gap: ... the source log was cut back`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning="The source had an unclean election, or lost data.",
            impact=(
                "The target has records that the source lost. With the policy `hold` later records of the partition "
                "wait."
            ),
            mend=(
                "Run `twinlog topics accept-gap mm2.properties T-0` to continue at the present end of the source log. "
                "See [gaps](running.md#gaps)."
            ),
        ),
        Message(
            "TW-GAP-03",
            "The source topic was deleted and recreated",
            "error",
            lines=(
                "`gap: ... deleted and created again`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning="The source has a new topic with the same name.",
            impact=(
                "The copies of the deleted topic stay on the target. With the policy `hold` records of the new topic "
                "wait."
            ),
            mend=(
                "Run `twinlog topics accept-gap mm2.properties T-0` to append the new topic to the old copy, or "
                "delete the remote topic and run `twinlog topics restart-from`. See [gaps](running.md#gaps)."
            ),
        ),
    ),
)

_RECORD = Area(
    name="RECORD",
    title="Uncopyable records",
    about=(
        "A single record or batch is uncopyable. A policy decides between holding the partition, leaving the record "
        "out, and the dead-letter topic."
    ),
    look=(
        "twinlog status mm2.properties",
        ("kafka-console-consumer.sh --bootstrap-server HOST:PORT --topic T --partition 0 --offset N --max-messages 1"),
    ),
    escalate="Give the offset to the owners of the topic: they know whether the record may be left out.",
    messages=(
        Message(
            "TW-RECORD-01",
            "The target refuses a record",
            "error",
            lines=(
                "`refused: ... left out: ...`",
                "`... it is in topic T`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning=(
                "The target answers INVALID_TIMESTAMP or INVALID_RECORD for a single record, for example because of "
                "`message.timestamp.before.max.ms` or a missing key in a compacted topic."
            ),
            impact=(
                "With the policy `hold` the record and later records of the partition wait; with `skip` or "
                "`dead-letter` the record is missing in the remote topic."
            ),
            mend=(
                "Change the setting of the remote topic that refuses the record; or run `twinlog topics skip-to "
                "mm2.properties T-0 --to-offset N` to leave the record out; or choose [another "
                "policy](held.md#policies)."
            ),
        ),
        Message(
            "TW-RECORD-02",
            "A record is too large for the remote topic",
            "error",
            lines=(
                "`the record at source offset N needs ... bytes`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning="The record is larger than `max.message.bytes` of the remote topic.",
            impact=(
                "With the policy `hold` the record and later records of the partition wait; with `skip` or "
                "`dead-letter` the record is missing in the remote topic."
            ),
            mend=("Raise `max.message.bytes` of the remote topic, or choose [another policy](held.md#policies)."),
        ),
        Message(
            "TW-RECORD-03",
            "A batch of the source is corrupt",
            "error",
            lines=(
                "`batch at source offsets ... is corrupt`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning=(
                "The checksum is wrong, or the offsets of the batch do not follow the offsets of the previous batch."
            ),
            impact=ONE_PARTITION_WAITS,
            mend=("Check the disk of the source broker; move the position past the batch if a repair is impossible."),
        ),
        Message(
            "TW-RECORD-04",
            "The transform fails on a record",
            "error",
            lines=(
                "`the transform ... fails on the record at offset N of ...`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning=(
                "The transform failed, and the flow has no tolerance: twinlog holds the partition at this record."
            ),
            impact=(
                "The record and later records of the partition wait. With `errors.tolerance = all` the record is "
                "missing in the remote topic."
            ),
            mend="Correct the function and start the flow again, or set `errors.tolerance = all`.",
        ),
        Message(
            "TW-RECORD-05",
            "The target refuses a batch",
            "error",
            lines=(
                "`T-0: the target refuses source offsets ...: ...`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning=(
                "The broker refuses the batch, and the line quotes the broker; if the broker finds a batch corrupt, "
                "the copier sends the batch six times."
            ),
            impact=ONE_PARTITION_WAITS,
            mend=(
                "Follow the quoted reason: a rule of the remote topic, or a damaged batch, for example from a faulty "
                "network or memory."
            ),
        ),
        Message(
            "TW-RECORD-06",
            "A record is too large at the moment",
            "warning",
            lines=("`limit: a record does not fit, ...`",),
            meaning="An administrator has just raised the record limit of the source.",
            impact=ONE_PARTITION_WAITS,
            mend="Wait: twinlog continues by itself.",
        ),
        Message(
            "TW-RECORD-07",
            "A record was left out by the tolerance",
            "warning",
            lines=("`transform: ... the transform failed on the record at offset N: ...`",),
            meaning=(
                "The flow's transform raised an exception, or returned a wrong value; twinlog skipped the record "
                "(`errors.tolerance = all`)."
            ),
            impact=(
                "The record is missing in the remote topic; the dead-letter topic has it, if the flow has a "
                "dead-letter topic."
            ),
            mend=(
                "Correct [the function](transforms.md#errors-and-dead-letters); a dead-letter topic, if the flow has it, "
                "holds the records."
            ),
        ),
        Message(
            "TW-RECORD-08",
            "A dead-letter topic was created",
            "info",
            lines=("`dead-letter: topic T was created ...`",),
            meaning="twinlog wrote the first record for the dead-letter topic.",
            impact=UNAFFECTED,
            mend="For information only.",
        ),
        Message(
            "TW-RECORD-09",
            "A record was left out by a policy",
            "warning",
            lines=(
                "`refused: ... left out: ...`",
                "`oversized: ...`",
            ),
            meaning=(
                "The target refuses the record, or the record is too large, and the policy of the flow leaves the "
                "record out."
            ),
            impact=(
                "The record is missing in the remote topic. With the policy `dead-letter` the dead-letter topic has "
                "the record."
            ),
            mend=(
                "For information only if the policy is intended; otherwise choose [another policy](held.md#policies)."
            ),
        ),
    ),
)

_TARGET = Area(
    name="TARGET",
    title="The remote log",
    about="The target lost records, or another program writes to a remote topic.",
    look=(
        "twinlog status mm2.properties",
        "twinlog verify mm2.properties --topic T",
    ),
    messages=(
        Message(
            "TW-TARGET-01",
            "The target leaves a batch unacknowledged",
            "error",
            lines=("`T-0 is held at source offset N: ...`",),
            meaning=(
                "The acknowledgement is missing after the producer's `delivery.timeout.ms` or `retries` of the file."
            ),
            impact=ONE_PARTITION_WAITS,
            mend=(
                "Check the brokers of the target: the partition needs a leader and enough replicas in sync. twinlog "
                "tries the partition again by itself."
            ),
            look=("kafka-topics.sh --bootstrap-server HOST:PORT --describe --under-min-isr-partitions",),
        ),
        Message(
            "TW-TARGET-02",
            "Records were lost on the target",
            "warning",
            lines=("`target: ... records were lost on the target`",),
            meaning=(
                "The remote log ends before the last acknowledged record, or has different records there, for example "
                "after an unclean leader election."
            ),
            impact=(
                "twinlog copies the lost records again. If their place is unknown, they are missing on the target."
            ),
            mend=(
                "For information only: the line names the source offsets that twinlog copies again. Only if their "
                "place is unknown, delete position and remote topic for a full copy."
            ),
            escalate=(
                "Tell the team that operates the target: an unclean leader election or a deleted log lost "
                "acknowledged records."
            ),
        ),
        Message(
            "TW-TARGET-03",
            "A remote topic was recreated",
            "warning",
            lines=("`target: remote topic T was recreated: what it held before is not copied again`",),
            meaning="The remote topic was deleted; twinlog continues after the last copied record.",
            impact="The earlier copies are gone; copying continues after the last copied record.",
            mend=(
                "For information only; `twinlog topics restart-from FILE TOPIC --earliest` copies the whole source "
                "topic again."
            ),
        ),
        Message(
            "TW-TARGET-04",
            "Another program writes to a remote topic",
            "warning",
            lines=("`foreign: ... somebody else writes to this remote topic`",),
            meaning=(
                "Records of another producer are between the copies. twinlog logs the first case at once, and then a "
                "sum at most once a minute."
            ),
            impact="Consumers read foreign records between the copies; offsets of the copies stay exact.",
            mend=(
                "Keep other producers away; the usual cause is two flows, or two runs of a flow, into the same topic."
            ),
            look=(
                "twinlog verify mm2.properties --topic T",
                ("kafka-console-consumer.sh --bootstrap-server HOST:PORT --topic T --property print.headers=true"),
            ),
        ),
        Message(
            "TW-TARGET-05",
            "A transaction stayed open",
            "warning",
            lines=(
                "`transaction: the last transaction was not committed in time; it will be aborted`",
                "`transaction: ...`",
            ),
            meaning=(
                "With `exactly.once.source.support` the end of a task left a transaction open, and the coordinator "
                "aborts it after its timeout; or a task found an open transaction of an earlier task."
            ),
            impact=(
                "The records of the transaction are copied again; consumers of committed records see each record once."
            ),
            mend="For information only. If the line returns, check the brokers of the target.",
        ),
        Message(
            "TW-TARGET-06",
            "Another producer has the transactional id",
            "warning",
            lines=("`fenced: ...`",),
            meaning=(
                "Another process writes with the same transactional ids, so the coordinator fences this process: two "
                "processes with the same flow, or a take-over."
            ),
            impact="Each record is on the target once; the fenced task ends.",
            mend=(
                "If both processes should run, give them the same file, so that the second process waits. After a "
                "take-over the message is for information only."
            ),
        ),
        Message(
            "TW-TARGET-07",
            "Storing positions fails",
            "warning",
            lines=(
                "`positions cannot be stored, trying again: ...`",
                "`positions could not be stored at the end: ...`",
            ),
            meaning=(
                "The topic of the positions was deleted, or its brokers refuse positions; the flow still copies "
                "records."
            ),
            impact=("Records are copied. A crash before the next stored position has more records copied again."),
            mend=(
                "See the reason; the next start of the connector or the process recreates a deleted topic and copies "
                "all records again."
            ),
        ),
        Message(
            "TW-TARGET-08",
            "Writing offset syncs fails",
            "warning",
            lines=("`syncs: offset syncs cannot be written, trying again: ...`",),
            meaning=("The topic of offset syncs refuses records, or its leader is silent. The line has the reason."),
            impact=(
                "Records are copied. Clients of MirrorMaker 2 translate offsets less exactly; twinlog has its own "
                "positions."
            ),
            mend="Follow the reason at the end of the line. twinlog tries again by itself.",
        ),
        Message(
            "TW-TARGET-09",
            "Heartbeats of the source were deleted",
            "info",
            lines=(
                ("`heartbeats: heartbeats-0: ...; the flow continues at offset N, as these are no user's records`"),
            ),
            meaning="The topic `heartbeats` of the source was deleted, or lost its last records.",
            impact=UNAFFECTED,
            mend="For information only.",
        ),
        Message(
            "TW-TARGET-10",
            "The target refuses long transactions",
            "error",
            lines=("`it refuses transactions of N ms; lower KEY of its producer, or raise ...`",),
            meaning=(
                "With `exactly.once.source.support` a transaction lasts longer than `transaction.max.timeout.ms` of "
                "the brokers allows."
            ),
            impact=COPIES_NOTHING,
            mend=(
                "Set the key in the line, for example `west.producer.transaction.timeout.ms = 60000`, or raise "
                "`transaction.max.timeout.ms` of the brokers."
            ),
        ),
    ),
)

PAGE = Page(
    "held",
    "Held partitions, gaps and lost records",
    (
        _HELD,
        _GAP,
        _RECORD,
        _TARGET,
    ),
)
