"""Messages about positions and internal topics."""

from __future__ import annotations

from twinlog.ops.explain.message import (
    COPIES_NOTHING,
    NOTHING_TO_DO,
    ONE_PARTITION_WAITS,
    UNAFFECTED,
    Area,
    Message,
    Page,
)

_START = Area(
    name="START",
    title="The begin of partitions",
    about="The keys `auto.offset.reset` and `twinlog.start` decide the begin of a partition without a stored position.",
    look=(
        "twinlog plan mm2.properties",
        "twinlog topics list mm2.properties",
    ),
    messages=(
        Message(
            "TW-START-01",
            "A partition is held for lack of a position",
            "error",
            lines=("`... = none, and T-0 has no stored position; set earliest or latest, ...`",),
            meaning="The value `none` forbids a begin without a stored position.",
            impact=ONE_PARTITION_WAITS,
            mend="Write `earliest`, `latest` or another value, or set `twinlog.start` for the topic.",
        ),
        Message(
            "TW-START-02",
            "Partitions begin at their ends",
            "info",
            lines=(
                "`start: these topics begin at their ends (...): TOPICS`",
                "`start: these topics begin at their first records since ...`",
            ),
            meaning="The flow copies these topics for the first time, and begins by the key in brackets.",
            impact="Older records stay uncopied.",
            mend="If this is unintended, choose [another place to begin](delivery.md#begin-of-a-partition).",
            in_line=False,
        ),
        Message(
            "TW-START-03",
            "A new topic begins at its earliest record",
            "info",
            lines=(
                ("`start: T appeared after the flow's first start: it begins at its earliest record, in spite of ...`"),
                "`start: T was recreated before it was copied: ...`",
            ),
            meaning="A flow copies a new topic whole, with any `auto.offset.reset` or `twinlog.start`.",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-START-04",
            "Partitions that lack a position begin at their earliest record",
            "info",
            lines=(
                (
                    "`start: PARTITIONS had no position after the first start: each begins at its earliest record, in "
                    "spite of ...`"
                ),
            ),
            meaning="The source has new partitions, or their positions were deleted.",
            impact="The partitions are copied whole: a second time, if their positions were deleted.",
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-START-05",
            "Partitions begin by timestamp, as their leaders are silent",
            "warning",
            lines=("`start: no leader answers for PARTITIONS: each begins by timestamp, as of ...`",),
            meaning="At the flow's first start the ends of the partitions are unknown.",
            impact="The partitions wait until they have leaders.",
            mend="Wait: the flow then begins the partitions by itself.",
        ),
        Message(
            "TW-START-06",
            "Partitions are gone before their end",
            "warning",
            lines=("`not waited for any more, as they are gone: PARTITIONS`",),
            meaning="During `--until-caught-up` the source deleted the partitions, or this login lost DESCRIBE.",
            impact="The remaining records of these partitions are missing on the target.",
            mend="If the partitions still exist, grant DESCRIBE and run the command again.",
        ),
    ),
)

_INTERNAL = Area(
    name="INTERNAL",
    title="Internal topics",
    about="twinlog keeps offset syncs, checkpoints, positions and reports in internal topics.",
    look=("kafka-topics.sh --bootstrap-server HOST:PORT --describe --topic 'mm2-.*'",),
    messages=(
        Message(
            "TW-INTERNAL-01",
            "An internal topic lacks compaction",
            "error",
            lines=("`... has cleanup.policy=... and must have compact`",),
            meaning="Another program or person created the topic.",
            impact="Without compaction the cluster deletes positions or checkpoints after some days.",
            mend="Run the command in the message.",
        ),
        Message(
            "TW-INTERNAL-02",
            "An internal topic has bounds now",
            "info",
            lines=("`internal topic T is kept small from now on: ...`",),
            meaning=("The topic lacked bounds, see [Topics of its own](synced.md#internal-topics)."),
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-INTERNAL-03",
            "An internal topic may grow",
            "warning",
            lines=("`internal topic T may keep much that is overwritten, ...`",),
            meaning="twinlog failed to set the topic's bounds, or an administrator set looser bounds.",
            impact="Records are copied; each start takes longer as the topic grows.",
            mend="Run the command in the message.",
        ),
        Message(
            "TW-INTERNAL-04",
            "An open transaction holds up an internal topic",
            "warning",
            lines=("`... is held up at offset N of M by an open transaction of ...`",),
            meaning="Another program's transaction on the internal topic is still open.",
            impact="The start of a flow, or the translation of offsets, waits.",
            mend=(
                "Wait for that producer's transaction timeout. Or end the transaction: `kafka-transactions.sh "
                "--bootstrap-server ... abort --topic T --partition P --start-offset N`."
            ),
        ),
        Message(
            "TW-INTERNAL-05",
            "The report of the flow is too large",
            "warning",
            lines=("`TOPIC does not take records of N bytes, so twinlog status lacks topics`",),
            meaning="The report exceeds the topic's record limit.",
            impact="Records are copied; `twinlog status` lacks topics of this flow.",
            mend="Raise `max.message.bytes` of the topic.",
        ),
        Message(
            "TW-INTERNAL-06",
            "The stored progress is too large",
            "warning",
            lines=("`progress: TOPIC does not take records of N bytes`",),
            meaning="The topic's `max.message.bytes` is very small.",
            impact="Records are copied; after a crash more records are copied again.",
            mend="Raise `max.message.bytes` of the topic.",
        ),
        Message(
            "TW-INTERNAL-07",
            "The end of an internal topic is unknown",
            "warning",
            lines=(
                "`... does not report where it ends: ...`",
                "`... where it begins: ...`",
            ),
            meaning="A partition of an internal topic lacks a leader, or its broker is silent.",
            impact="The start of the flow waits.",
            mend=(
                "Check that broker (`kafka-topics.sh --describe --unavailable-partitions`). twinlog continues by "
                "itself."
            ),
        ),
        Message(
            "TW-INTERNAL-08",
            "Creating the topic of offset syncs fails",
            "warning",
            lines=(("`cluster WEST: topic T could not be created: ...; Records are copied all the same, ...`"),),
            meaning=(
                "The login lacks CREATE on the topic, or the cluster refuses its settings. The line quotes the cluster."
            ),
            impact="Records are copied. Only twinlog can translate offsets of this flow.",
            mend=(
                "Grant CREATE, create the topic with `cleanup.policy=compact`, or set `emit.offset-syncs.enabled = "
                "false`."
            ),
        ),
        Message(
            "TW-INTERNAL-09",
            "Creating an internal topic fails",
            "error",
            lines=("`cluster WEST: topic T could not be created: ...`",),
            meaning="The cluster refuses a topic of positions or checkpoints. The line quotes the cluster.",
            impact=COPIES_NOTHING,
            mend=(
                "Grant CREATE on the topic, set a smaller `offset.storage.replication.factor`, or create the topic "
                "with `cleanup.policy=compact`."
            ),
        ),
    ),
)

PAGE = Page(
    "positions",
    "Positions and internal topics",
    (
        _START,
        _INTERNAL,
    ),
)
