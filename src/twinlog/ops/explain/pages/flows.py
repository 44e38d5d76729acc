"""Messages about flows that wait or fail."""

from __future__ import annotations

from twinlog.ops.explain.message import ONE_PARTITION_WAITS, WAITS, Area, Message, Page

_FLOW = Area(
    name="FLOW",
    title="Flows",
    about="A flow copies the topics of a source to a target. twinlog starts, runs and ends flows.",
    messages=(
        Message(
            "TW-FLOW-01",
            "A flow has failed",
            "error",
            lines=("`FLOW: FAILED: ...`",),
            meaning="The flow ended with an error that outlasts a retry. The line has the reason and its id.",
            impact=(
                "The flow copies no record; all other flows continue. The next start continues after the last copied "
                "record."
            ),
            mend=(
                "Remove the reason and restart the process; restart a connector with `twinlog connectors restart NAME`."
            ),
            look=(
                "twinlog status mm2.properties",
                "twinlog connectors status",
            ),
        ),
        Message(
            "TW-FLOW-02",
            "Copiers took too long to end",
            "warning",
            lines=("`FLOW: copiers took longer than N s to release their partitions`",),
            meaning="A copier still waited for the target when twinlog ended.",
            impact="The next start copies the last seconds again at most.",
            mend="If the end was unintended, check whether the target answers slowly.",
        ),
        Message(
            "TW-FLOW-03",
            "A job of a flow was late at the end",
            "warning",
            lines=(
                "`could not ... to the end within N s`",
                "`could not ... a last time: ...`",
            ),
            meaning="A slow or silent cluster left the last checkpoints, group offsets or heartbeats unwritten.",
            impact="Records are unaffected. Groups that move now repeat records since the last checkpoint.",
            mend="Follow the reason in the line. The next start of the flow writes the positions again.",
        ),
        Message(
            "TW-FLOW-04",
            "A job of a flow fails",
            "warning",
            lines=(
                "`cannot write checkpoints, trying again: ...`",
                "`cannot commit offsets of groups on the target, ...`",
                "`cannot write heartbeats, ...`",
                "`cannot ..., trying again: ...`",
            ),
            meaning="A job on the driver fails, or fails for the named group.",
            impact="Records are copied. Meanwhile group positions on the target become older, or new topics wait.",
            mend="Follow the reason at the end of the line. After a success, `can ... again` follows.",
        ),
        Message(
            "TW-FLOW-05",
            "A run is done except for paused partitions",
            "info",
            lines=("`caught up, without N paused partitions: ...`",),
            meaning="`--until-caught-up` leaves paused partitions out.",
            impact="Records of the paused partitions are missing on the target.",
            mend="Run `twinlog topics resume`.",
            in_line=False,
        ),
        Message(
            "TW-FLOW-06",
            "A run found nothing to copy",
            "error",
            lines=("`FLOW: nothing to copy: ...`",),
            meaning="`--until-caught-up` found no topic that the flow mirrors. The line lists the reasons.",
            impact="The run copied no record.",
            mend=(
                "Change `topics` and `topics.exclude`, for example `east->west.topics = orders.*`, or grant DESCRIBE "
                "on the topics. `twinlog plan` prints the selection."
            ),
            look=("twinlog plan mm2.properties",),
        ),
        Message(
            "TW-FLOW-07",
            "twinlog ends",
            "error",
            lines=("`twinlog ends: ...`",),
            meaning="The line has the reason; a supervisor sees the reason in the exit code.",
            impact=(
                "This process copies no more; positions are stored. Another process of the same file, if any, takes "
                "over."
            ),
            mend="Remove the reason in the line, and restart the process.",
            look=("twinlog check mm2.properties",),
        ),
        Message(
            "TW-FLOW-08",
            "Another process may run the flow",
            "warning",
            lines=(("`FLOW: another process may run the flow now, the copiers of this process are cut off`"),),
            meaning="This process lost the leadership of the flow, for example after a pause of the machine.",
            impact=(
                "Records that both processes appended at the same moment may be duplicates, unless "
                "`exactly.once.source.support` is on."
            ),
            mend="Check this machine for suspension, or overload of CPU or memory. twinlog continues by itself.",
        ),
    ),
)

_WAIT = Area(
    name="WAIT",
    title="A flow or a partition waits",
    about="twinlog waits for a cluster or for Spark, and continues by itself once the cause is gone.",
    look=("twinlog status mm2.properties",),
    messages=(
        Message(
            "TW-WAIT-01",
            "A cluster is unreachable",
            "warning",
            lines=("`waiting: cluster west unreachable, nothing is copied (...)`",),
            meaning="All brokers of the cluster are silent.",
            impact=WAITS,
            mend=(
                "Start the cluster, or repair the network. twinlog continues by itself, and logs `cluster west answers "
                "again after 90 s`."
            ),
        ),
        Message(
            "TW-WAIT-02",
            "Every partition of a flow waits",
            "warning",
            lines=("`waiting: every partition is held up, ...`",),
            meaning="The brokers refuse the requests, for example because too few replicas are in sync.",
            impact=WAITS,
            mend="Follow the reason in brackets.",
        ),
        Message(
            "TW-WAIT-03",
            "All tasks of Spark have ended",
            "warning",
            lines=("`waiting: no task of Spark runs, ...`",),
            meaning="Spark's JVM, executors or workers have ended.",
            impact=WAITS,
            mend="Wait: twinlog starts new tasks by itself. On a Spark cluster, free slots.",
        ),
        Message(
            "TW-WAIT-04",
            "The leadership of a flow is unconfirmed",
            "warning",
            lines=(("`waiting: the group coordinator has not confirmed that this process runs the flow, ...`"),),
            meaning="The coordinator of the flow's group is silent.",
            impact=WAITS,
            mend="Check the brokers of the target.",
        ),
        Message(
            "TW-WAIT-05",
            "A partition waits",
            "warning",
            lines=("`waiting: ... is not copied yet, and tried again`",),
            meaning="A partition waits for a cluster.",
            impact=ONE_PARTITION_WAITS,
            mend="Follow the reason in the line.",
        ),
        Message(
            "TW-WAIT-06",
            "An open transaction holds up a partition",
            "warning",
            lines=(("`source: a transaction that has been open for ... keeps the records from offset N on; ...`"),),
            meaning="With `isolation.level = read_committed` a producer's transaction has been open for 15 minutes.",
            impact=(
                "The partition is copied up to this offset. Consumers of committed records wait at it on the source as "
                "well."
            ),
            mend="End the producer, or abort its transaction with `kafka-transactions.sh`.",
            look=("kafka-transactions.sh --bootstrap-server HOST:PORT find-hanging --broker-id 1",),
        ),
        Message(
            "TW-WAIT-07",
            "A broker throttles twinlog",
            "warning",
            lines=(
                "`source: broker N throttles this client, as it is over a quota`",
                "`target: ...`",
            ),
            meaning=(
                "The broker delays requests of this client. After a minute twinlog treats the broker as unreachable."
            ),
            impact="Records are copied later.",
            mend="Raise `consumer_byte_rate`, `producer_byte_rate` or `request_percentage` for the login or client id.",
            look=(
                (
                    "kafka-configs.sh --bootstrap-server HOST:PORT --command-config client.properties "
                    "--describe --entity-type users"
                ),
            ),
        ),
        Message(
            "TW-WAIT-08",
            "A transaction waits for a partition",
            "warning",
            lines=(
                "`target: the open transaction waits for T-0; without a leader for N s: T-0`",
                "`... the previous transaction of ID does not end; without a leader for N s: T-0`",
                "`target: the open transaction waits for T-0; with too few replicas in sync: T-0`",
            ),
            meaning=(
                "With exactly once, the transaction of a task ends when each of its partitions has a leader, and as "
                "many replicas in sync as `min.insync.replicas`."
            ),
            impact=(
                "All partitions of the task wait together for 10 s. Then T-0 is left out for 2 s, and after each "
                "further wait for twice as long, up to a minute."
            ),
            mend=(
                "Check the brokers of T-0. twinlog continues by itself; a larger `tasks.max` keeps more partitions "
                "apart. A remote topic with a `message.timestamp.before.max.ms` of a few milliseconds has the same "
                "effect: raise the value, and restart the coordinator's broker."
            ),
            look=("kafka-topics.sh --bootstrap-server HOST:PORT --describe --unavailable-partitions",),
        ),
        Message(
            "TW-WAIT-09",
            "A read of a partition is throttled",
            "warning",
            lines=("`T-0 could not be read for 60 s, as when a quota throttles it`",),
            meaning="A broker's answers are empty while twinlog looks for records that arrived before a crash.",
            impact="The partition waits before its first record after the crash.",
            mend="Wait: twinlog tries again. Or raise `consumer_byte_rate` or `request_percentage` for the login.",
        ),
        Message(
            "TW-WAIT-10",
            "A leader has an older epoch",
            "warning",
            lines=(("`its leader has an older leader epoch than what was copied; that is believed after 30 s`"),),
            meaning=(
                "A topic without a topic id (Kafka before 2.8) was recreated, or the broker lost contact with its "
                "cluster."
            ),
            impact=ONE_PARTITION_WAITS,
            mend="Wait. After 30 seconds twinlog [holds](held.md) the partition with `TW-GAP-03`.",
        ),
    ),
)

_FAULT = Area(
    name="FAULT",
    title="Unexpected errors",
    about="An unknown error, with its place in the code. The lines below the message are a Python traceback.",
    look=("twinlog --version",),
    escalate=(
        "Report the line with its traceback and the version of twinlog to the people who maintain twinlog. Tracebacks "
        "have names of topics and hosts; remove these names if they are confidential."
    ),
    messages=(
        Message(
            "TW-FAULT-01",
            "An unexpected error of a flow",
            "error",
            lines=(
                "`flow FLOW ...`",
                "`FLOW: ...`",
            ),
            meaning="A step of a flow failed. A job tries again; otherwise the flow fails with the reason.",
            impact="A failed flow waits for a restart; positions are stored.",
            mend="Run `twinlog status`. If the flow is `FAILED`, restart the process. Report the error.",
            look=("twinlog status mm2.properties",),
        ),
        Message(
            "TW-FAULT-02",
            "An unexpected error of a copier",
            "error",
            lines=(
                "`copier ...`",
                "`a coroutine crashed`",
                "`a task failed: ...`",
            ),
            meaning="The driver gives the copier's partitions to another copier.",
            impact="The partitions pause for some seconds.",
            mend="Report the error; twinlog continues by itself.",
        ),
        Message(
            "TW-FAULT-03",
            "An unexpected error of a worker",
            "error",
            lines=(
                "`connector NAME ...`",
                "`the worker's herder ended`",
            ),
            meaning="A Connect worker failed while it started, ended or followed connectors.",
            impact="The named connector may have stopped; all other connectors continue.",
            mend=(
                "Restart the connector with `twinlog connectors restart NAME`, or restart the worker. Report the error."
            ),
            look=("twinlog connectors status",),
        ),
        Message(
            "TW-FAULT-04",
            "An unexpected error of a request",
            "error",
            lines=("`an unexpected ... at METHOD PATH: ...`",),
            meaning="The lines below the message name the place in the code, and hide all values.",
            impact="The request failed with status 500; connectors run as before.",
            mend="Report the fault with these lines.",
        ),
        Message(
            "TW-FAULT-05",
            "An unexpected error at the end",
            "error",
            lines=("`at the end`",),
            meaning="A step at the end of the process failed.",
            impact="Positions were stored before this step.",
            mend="Report the error.",
        ),
        Message(
            "TW-FAULT-06",
            "An unexpected error of a command",
            "error",
            lines=("`internal error: ...`",),
            meaning="A command failed with an unknown error.",
            impact="The line, or the line after it, tells how far the command was.",
            mend="Report the error with the output of the same command and `-v`.",
        ),
    ),
)

PAGE = Page(
    "flows",
    "Flows that wait or fail",
    (
        _FLOW,
        _WAIT,
        _FAULT,
    ),
)
