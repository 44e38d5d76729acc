"""Messages about uncopyable records."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_TO_DO, ONE_PARTITION_WAITS, UNAFFECTED, Area, Message

RECORD = Area(
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
                "The target answers INVALID_TIMESTAMP or INVALID_RECORD, for example because of "
                "`message.timestamp.before.max.ms`, or of a missing key in a compacted topic."
            ),
            impact=(
                "Policy `hold`: this record and later records of the partition wait. `skip`, `dead-letter`: the remote "
                "topic lacks the record."
            ),
            mend=(
                "Change the setting of the remote topic. Or leave the record out, with the next offset (N + 1): "
                "`twinlog topics skip-to mm2.properties T-0 --to-offset NEXT --flow east:west`. Or choose [another "
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
            meaning="The record exceeds `max.message.bytes` of the remote topic.",
            impact=(
                "Policy `hold`: this record and later records of the partition wait. `skip`, `dead-letter`: the remote "
                "topic lacks the record."
            ),
            mend=(
                "With `sync.topic.configs.enabled`, raise `max.message.bytes` of the source topic to the bytes in the "
                "line or more: twinlog then raises the value of the remote topic. Without it raise the remote topic: "
                "`kafka-configs.sh --bootstrap-server HOST:PORT --command-config client.properties --alter --topic "
                "east.T --add-config max.message.bytes=N`. Or choose [another policy](held.md#policies)."
            ),
        ),
        Message(
            "TW-RECORD-03",
            "A batch of the source is corrupt",
            "error",
            lines=(
                "`batch at source offsets ... is corrupt`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning="The checksum of the batch is wrong, or its offsets do not follow the previous batch.",
            impact=ONE_PARTITION_WAITS,
            mend=(
                "Check the disk of the source broker. If a repair is impossible, leave the batch out, with the offset "
                "after the batch: `twinlog topics skip-to mm2.properties T-0 --to-offset NEXT --flow east:west`."
            ),
        ),
        Message(
            "TW-RECORD-04",
            "The transform fails on a record",
            "error",
            lines=(
                "`the transform ... fails on the record at offset N of ...`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning="The transform failed, and the flow has no tolerance.",
            impact="This record and later records of the partition wait.",
            mend=(
                "Correct the function and restart the flow. Or set `errors.tolerance = all`: the remote topic then "
                "lacks the record."
            ),
        ),
        Message(
            "TW-RECORD-05",
            "The target refuses a batch",
            "error",
            lines=(
                "`T-0: the target refuses source offsets ...: ...`",
                "`T-0 is held at source offset N: ...`",
            ),
            meaning="The line quotes the broker. A batch that the broker finds corrupt is sent six times.",
            impact=ONE_PARTITION_WAITS,
            mend="Follow the quoted reason: a rule of the remote topic, or a batch damaged by the network or memory.",
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
            meaning="The transform failed or returned a wrong value, and `errors.tolerance = all` skipped the record.",
            impact="The remote topic lacks the record; the dead-letter topic of the flow, if set, has the record.",
            mend="Correct [the function](transforms.md#errors-and-dead-letters).",
        ),
        Message(
            "TW-RECORD-08",
            "A dead-letter topic was created",
            "info",
            lines=("`dead-letter: topic T was created ...`",),
            meaning="twinlog wrote the first record for the dead-letter topic.",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
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
                "The target refuses the record, or the record is too large; the policy of the flow leaves the record "
                "out."
            ),
            impact=(
                "The remote topic lacks the record. With the policy `dead-letter` the dead-letter topic has the record."
            ),
            mend="If this is unintended, choose [another policy](held.md#policies).",
        ),
    ),
)
