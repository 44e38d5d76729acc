"""Messages about held partitions, gaps and lost records."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_TO_DO, ONE_PARTITION_WAITS, UNAFFECTED, Area, Message, Page
from twinlog.ops.explain.pages.records import RECORD

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
            meaning="The next record of these partitions cannot be copied. twinlog tries again by itself.",
            impact="Records of these partitions wait on the source; retention may delete them.",
            mend=(
                "Run `twinlog status`: it prints each partition with its id, its reason and the "
                "command of its way out. "
                "See [held partitions](held.md#reasons)."
            ),
        ),
        Message(
            "TW-HELD-02",
            "A partition is copied again",
            "info",
            lines=("`copied again, held no more (REASON): ...`",),
            meaning="",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
        ),
        Message(
            "TW-HELD-03",
            "A run is done but for held partitions",
            "error",
            lines=("`caught up, but for held partitions: ...`",),
            meaning="`--until-caught-up` copied all other partitions, and tried each held partition again.",
            impact="Records of the held partitions are missing on the target.",
            mend="Run `twinlog status`, follow each way out, and run the command again.",
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
        "Give the missing offsets to the owners of the topic: the line names the first and the last offset. Records "
        "that only the source had are lost."
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
                "The deleted records stay missing on the target. With the policy `hold` later records of the partition "
                "wait."
            ),
            mend=(
                "Run `twinlog topics accept-gap mm2.properties T-0 --flow east:west` to continue after [the "
                "gap](delivery.md#gaps). Then raise the retention on the source, or `tasks.max`."
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
                "Run `twinlog topics accept-gap mm2.properties T-0 --flow east:west` to continue at the offset to "
                "which the log was cut back. See [gaps](delivery.md#gaps)."
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
            impact="The earlier copies stay on the target. With the policy `hold` records of the new topic wait.",
            mend=(
                "Run `twinlog topics accept-gap mm2.properties T-0 --flow east:west` to append the new topic to the "
                "old copy. Or delete the remote topic and run `twinlog topics restart-from mm2.properties T --earliest "
                "--flow east:west`. See [gaps](delivery.md#gaps)."
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
            meaning="The acknowledgement is missing after the producer's `delivery.timeout.ms` or `retries`.",
            impact=ONE_PARTITION_WAITS,
            mend=(
                "Check the target's brokers: the partition needs a leader and enough replicas in sync. twinlog tries "
                "again by itself."
            ),
            look=("kafka-topics.sh --bootstrap-server HOST:PORT --describe --under-min-isr-partitions",),
        ),
        Message(
            "TW-TARGET-02",
            "Records were lost on the target",
            "warning",
            lines=("`target: ... lost on the target`",),
            meaning=(
                "The remote log ends before the last acknowledged record, or has different records there, for example "
                "after an unclean election."
            ),
            impact="twinlog copies the lost records again; records with an unknown place stay missing.",
            mend=(
                "The line names the source offsets that are copied again. If their place is unknown, delete the "
                "remote topic, and copy the whole topic again: `twinlog topics restart-from "
                "mm2.properties T --earliest --flow east:west`."
            ),
            escalate="Tell the team of the target: an unclean election or a deleted log lost acknowledged records.",
        ),
        Message(
            "TW-TARGET-03",
            "A remote topic was recreated",
            "warning",
            lines=("`target: remote topic T was recreated: what it held before is not copied again`",),
            meaning="The remote topic was deleted.",
            impact="The earlier copies are gone; copying continues after the last copied record.",
            mend=(
                "To copy the whole source topic again, run `twinlog topics restart-from mm2.properties T --earliest "
                "--flow east:west`."
            ),
        ),
        Message(
            "TW-TARGET-04",
            "Another program writes to a remote topic",
            "warning",
            lines=("`foreign: ... somebody else writes to this remote topic`",),
            meaning=(
                "Records of another producer are between the copies. The first case is logged at once, then a sum each "
                "minute."
            ),
            impact="Consumers read foreign records between the copies; offsets of the copies stay exact.",
            mend="Keep other producers away. The usual cause: two flows, or two runs of a flow, into the same topic.",
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
                "With `exactly.once.source.support` an earlier task left a transaction open; the coordinator aborts it "
                "after its timeout."
            ),
            impact="Records of the transaction are copied again; consumers of committed records see each record once.",
            mend="If the line returns, check the brokers of the target.",
        ),
        Message(
            "TW-TARGET-06",
            "Another producer has the transactional id",
            "warning",
            lines=("`fenced: ...`",),
            meaning=(
                "Two processes run the same flow, or another process took over: the coordinator fences this process."
            ),
            impact="Each record is on the target once; the fenced task ends.",
            mend=(
                "Give both processes the same file, so that the second process waits. After a take-over there is "
                "nothing to do."
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
            meaning="The topic of positions was deleted, or its brokers refuse positions.",
            impact="Records are copied. A crash now copies more records again.",
            mend=(
                "Follow the reason. The next start recreates a deleted topic and copies all records again: if you have "
                "a list of positions, [write these positions first](delivery.md#positions)."
            ),
        ),
        Message(
            "TW-TARGET-08",
            "Writing offset syncs fails",
            "warning",
            lines=("`syncs: offset syncs cannot be written, trying again: ...`",),
            meaning="The topic of offset syncs refuses records, or its leader is silent.",
            impact=(
                "Records are copied. Clients of MirrorMaker 2 translate offsets less exactly; twinlog uses its own "
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
            mend=NOTHING_TO_DO,
        ),
        Message(
            "TW-TARGET-10",
            "The target refuses long transactions",
            "error",
            lines=("`it refuses transactions of N ms; lower KEY of its producer, or raise ...`",),
            meaning=(
                "With `exactly.once.source.support` a transaction exceeds `transaction.max.timeout.ms` of the brokers. "
                "With `twinlog.offsets = identical` the copy of an aborted transaction exceeds it."
            ),
            impact=(
                "With `exactly.once.source.support` nothing is copied. With `twinlog.offsets = identical` only the "
                "partition waits, and all other partitions are copied."
            ),
            mend=(
                "Set the key in the line, for example `west.producer.transaction.timeout.ms = 60000`, or raise "
                "`transaction.max.timeout.ms` of the brokers."
            ),
        ),
    ),
)

_IDENT = Area(
    name="IDENT",
    title="Identical offsets",
    about="With `twinlog.offsets = identical` a record has the same offset on both clusters, or its partition is held.",
    look=(
        "twinlog status mm2.properties",
        "twinlog verify mm2.properties --topic T",
        "kafka-get-offsets.sh --bootstrap-server HOST:PORT --topic T",
    ),
    messages=(
        Message(
            "TW-IDENT-01",
            "A remote log has diverged",
            "error",
            lines=("`T-0 is held at source offset N: ... diverged ...`",),
            meaning=(
                "The target has another record at an offset of the source, or a record too many. As a rule another "
                "program writes to the remote topic, or the topic was filled before the flow."
            ),
            impact=ONE_PARTITION_WAITS,
            mend=(
                "Keep other producers away from the remote topic and delete the topic: twinlog creates it again, and "
                "copies the source from its first record. Or set `twinlog.offsets.T = translated`. See [identical "
                "offsets](identical-offsets.md#held-partitions)."
            ),
        ),
        Message(
            "TW-IDENT-02",
            "An offset of the source has no record",
            "error",
            lines=("`T-0 is held at source offset N: ... cannot have the offset of its source ...`",),
            meaning=(
                "The topic has transactions, and the source is read with `isolation.level = read_uncommitted`. Or more "
                "than 100,000 offsets in a row lack a record, as after a compaction. Or the remote topic keeps its "
                "first records, because `cleanup.policy` lacks `delete`."
            ),
            impact=ONE_PARTITION_WAITS,
            mend=(
                "Take the way out in the line. Or set `twinlog.offsets.T = translated` and run `twinlog reload "
                "mm2.properties`: copying continues with translated offsets."
            ),
        ),
        Message(
            "TW-IDENT-03",
            "A remote log keeps records that its source deleted",
            "warning",
            lines=("`log start: east.T-0 keeps the records before offset N, which T-0 deleted: ...`",),
            meaning=(
                "The source deleted its first records, by retention or by DeleteRecords. The login of the target lacks "
                "DELETE on the remote topic, or `cleanup.policy` of the remote topic lacks `delete`."
            ),
            impact="Records are copied. A consumer from the first offset sees older records on the target.",
            mend=(
                "Grant DELETE on the remote topic, or set its `cleanup.policy` to `delete`. twinlog tries again every "
                "minute."
            ),
        ),
    ),
)

PAGE = Page("held", "Held partitions, gaps and lost records", (_HELD, _GAP, RECORD, _TARGET, _IDENT))
