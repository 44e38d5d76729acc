"""Messages about commands of operators."""

from __future__ import annotations

from twinlog.explain.message import NOTHING_CHANGED, UNAFFECTED, Area, Message, Page

_PLAN = Area(
    name="PLAN",
    title="Findings of twinlog plan and twinlog diff",
    about="These commands only print the messages.",
    look=("twinlog plan mm2.properties",),
    messages=(
        Message(
            "TW-PLAN-01",
            "A remote topic has foreign records",
            "error",
            lines=("`clash: TOPIC is on WEST with N records of another origin than this flow: ...`",),
            meaning=("From `twinlog plan`: another program made the remote topic, or stored positions were lost."),
            impact="A run would append the copies behind the foreign records.",
            mend="Delete or rename the remote topic, or leave the source topic out.",
            in_line=False,
        ),
        Message(
            "TW-PLAN-02",
            "A remote topic has more partitions",
            "error",
            lines=("`clash: TOPIC has N partitions on WEST, ...`",),
            meaning=(
                "From `twinlog plan`: the remote topic has more partitions than its source; after a move of "
                "producers, keys would map to other partitions."
            ),
            impact="Records with the same key may come to another partition after producers have moved.",
            mend="Recreate the remote topic, or add partitions to the source topic.",
            in_line=False,
        ),
        Message(
            "TW-PLAN-03",
            "Two topic names collide",
            "error",
            lines=("`clash: ...: Kafka refuses two names that differ in dots and underscores only; ...`",),
            meaning="From `twinlog plan`: the metrics of the brokers would confuse the two topics.",
            impact="A run would leave the topic out.",
            mend="Choose another separator, or leave either topic out.",
            in_line=False,
        ),
        Message(
            "TW-PLAN-04",
            "Records may exceed the limit of a remote topic",
            "warning",
            lines=(("`record-limit: records of up to N bytes (...) may come to TOPIC, which takes N: ...`"),),
            meaning="From `twinlog plan`: `max.message.bytes` is smaller on the target.",
            impact="A run would hold the partition at the first record above the limit.",
            mend="Raise it on the target, or set `twinlog.oversized.record.policy = skip`.",
            in_line=False,
        ),
        Message(
            "TW-PLAN-05",
            "The disks of the target are too small",
            "warning",
            lines=(("`disk: SIZE will be written on WEST (N replicas), whose disks have SIZE of room; ...`"),),
            meaning=("From `twinlog plan`: the disks of the target would be full before the end of the copy."),
            impact="A run would fill the disks of the target's brokers.",
            mend="Follow the line.",
            in_line=False,
        ),
        Message(
            "TW-PLAN-06",
            "A part is missing in the comparison",
            "warning",
            lines=("`not compared: ...`",),
            meaning=(
                "From `twinlog diff`: the login lacks a permission for a part of the comparison; the line names the "
                "permission."
            ),
            impact=NOTHING_CHANGED,
            mend="Grant the permission, or compare the rest.",
            look=("twinlog diff mm2.properties east west",),
            in_line=False,
        ),
    ),
)

_COMMAND = Area(
    name="COMMAND",
    title="Requests about single topics",
    about="`twinlog topics` asks the process that runs a flow to pause, move or release partitions.",
    look=("twinlog topics list mm2.properties",),
    messages=(
        Message(
            "TW-COMMAND-01",
            "A request was carried out",
            "info",
            lines=("`..., asked by HOST-PID: applied`",),
            meaning="An operator's request about [single topics](topics.md), and its result.",
            impact="As the request says: partitions pause, continue, or move to another offset.",
            mend="For information only; a refused request has the reason.",
        ),
        Message(
            "TW-COMMAND-02",
            "A request was refused",
            "warning",
            lines=("`..., asked by HOST-PID: refused: ...`",),
            meaning=(
                "An operator asked for a change of [single topics](topics.md), and the process that runs the flow has "
                "refused the request. The line has the reason."
            ),
            impact="The partitions are copied as before.",
            mend="Follow the reason, and repeat the request if it is still wanted.",
        ),
        Message(
            "TW-COMMAND-03",
            "Records are passed over by a request",
            "warning",
            lines=("`skip-to passes over N source offsets that are never copied: ...`",),
            meaning="An operator asked for the skip.",
            impact="The passed records are missing on the target.",
            mend=(
                "For information only; `twinlog topics restart-from` copies the records that the source still holds."
            ),
        ),
        Message(
            "TW-COMMAND-04",
            "Requests wait for a cluster",
            "warning",
            lines=("`cannot do what is asked of topics, trying again: ...`",),
            meaning=(
                "A cluster is silent while `twinlog topics` asks it, or the process lacks a right on the control "
                "topic; the named partitions may wait meanwhile."
            ),
            impact="Partitions of a request may wait; all other partitions are copied.",
            mend="See the reason; a missing right delays no partition.",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-05",
            "A copier still has a partition",
            "info",
            lines=("`copiers still hold T-0`",),
            meaning="A copier still holds a partition of a `twinlog topics` command.",
            impact="The partition is copied until the copier has released it.",
            mend="Wait; twinlog cuts off a copier that hangs.",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-06",
            "Single topics stay as they are",
            "info",
            lines=("`nothing can be asked of single topics: ... lacks READ on topic ...`",),
            meaning=("The process that runs the flow lacks a right on the control topic, if the topic exists."),
            impact=UNAFFECTED,
            mend="Grant READ and WRITE on it, if you want [those commands](topics.md#rights).",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-07",
            "Records that the target lost stay out",
            "warning",
            lines=(
                (
                    "`... ends at offset N, though M was acknowledged: of the records that the target lost, only the "
                    "records from the place of the command on are copied again`"
                ),
            ),
            meaning=("An operator moved a partition; its remote log had lost records before twinlog noticed the loss."),
            impact="The named records are missing on the target.",
            mend="Run `twinlog topics restart-from` with an offset before the lost records.",
        ),
        Message(
            "TW-COMMAND-08",
            "Another program stored a position",
            "warning",
            lines=("`another program stored offset N meanwhile, and it stays there`",),
            meaning="MirrorMaker 2, or an older twinlog, copied records between two steps of a command.",
            impact="The partition continues at the position of the other program.",
            mend="Look at the present offset, and repeat the request if it is still wanted.",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-09",
            "A request waits for a process",
            "info",
            lines=("`no process runs east->west now: ...; the next process carries it out`",),
            meaning="From `twinlog topics`: twinlog has stored the request.",
            impact=UNAFFECTED,
            mend="Start the flow.",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-10",
            "A request names an unknown topic",
            "warning",
            lines=("`... matches no topic that east->west mirrors; ...`",),
            meaning="An answer to `twinlog topics`.",
            impact=UNAFFECTED,
            mend="Write a topic from the message; a pattern must match a whole name.",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-11",
            "A request needs the source",
            "warning",
            lines=("`... may be a topic or a partition, and the source is silent: ...`",),
            meaning="From `twinlog topics`: twinlog discarded the request.",
            impact=UNAFFECTED,
            mend="Write `--partition`, or wait for the source.",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-12",
            "The arrived records of a partition are unknown",
            "warning",
            lines=("`the arrived records of T-0 are unknown: ...`",),
            meaning=(
                "Before a request moves a partition, twinlog looks for records that arrived after the last stored "
                "position, and the remote log is unreadable."
            ),
            impact="If the request goes back, some records are copied a second time.",
            mend="Follow the reason at the end of the line, and repeat the request if it is still wanted.",
        ),
    ),
)

_SWITCH = Area(
    name="SWITCH",
    title="Switchover",
    about="`twinlog switchover` and `twinlog switchback` print these messages.",
    look=(
        "twinlog switchover mm2.properties --from east --to west --dry-run",
        "twinlog status mm2.properties",
    ),
    escalate=(
        "Leave the switchover as it is, and give the report of the command to the people who maintain twinlog: each "
        "step can be continued or undone later."
    ),
    messages=(
        Message(
            "TW-SWITCH-01",
            "Producers still write",
            "warning",
            lines=("`settle: producers still write to TOPIC`",),
            meaning=(
                "Some producers pass the fence: super users, a producer below the quota, or running producers with "
                "`--fence none`."
            ),
            impact="The switchover waits; records are copied.",
            mend=(
                "Stop the producers; twinlog continues by itself. To undo the switchover, press Ctrl-C and run it "
                "with `--abort` in another terminal."
            ),
            in_line=False,
        ),
        Message(
            "TW-SWITCH-02",
            "A record came after the cut",
            "warning",
            lines=(("`watch: somebody wrote to TOPIC on CLUSTER after the cut: stop that; it is copied, too`"),),
            meaning="A super user passed the fence after twinlog released the producers.",
            impact="The late records are on the target behind newer records.",
            mend=(
                "Stop this producer. twinlog copies its records after the new records of the target, and the report "
                "has their offsets."
            ),
            in_line=False,
        ),
        Message(
            "TW-SWITCH-03",
            "A topic is written in spite of the fence",
            "error",
            lines=(("`somebody writes to TOPIC on CLUSTER in spite of the fence, or it is not copied; ...`"),),
            meaning=("The producer still writes, or the flow does not run; all other producers write to the target."),
            impact="The late records wait on the source.",
            mend="Stop the producer, let the flow run, and run the same command again.",
            in_line=False,
        ),
        Message(
            "TW-SWITCH-04",
            "An abort came too late",
            "error",
            lines=("`switchover east->west: producers may write to west already; ...`",),
            meaning="`--abort` came too late: an abort would let producers write to both clusters.",
            impact=NOTHING_CHANGED,
            mend="Complete the same command, and go back with `switchback`.",
            in_line=False,
        ),
        Message(
            "TW-SWITCH-05",
            "Two waves have the same topic",
            "error",
            lines=("`TOPIC: fenced already by wave NAME of switchover east->west; ...`",),
            meaning=("Two waves have the same topic: the release of either fence would release the other fence."),
            impact=NOTHING_CHANGED,
            mend="Run `--release` of that wave, or choose another file.",
            in_line=False,
        ),
        Message(
            "TW-SWITCH-06",
            "The switchover waits for transactions",
            "warning",
            lines=("`settle: waits for transactions to end: ...`",),
            meaning="A producer died within a transaction.",
            impact="The switchover waits; producers are fenced meanwhile.",
            mend="Wait for the transaction timeout, or run `kafka-transactions.sh abort`.",
            in_line=False,
        ),
        Message(
            "TW-SWITCH-07",
            "Another operator works on the switchover",
            "error",
            lines=("`process PID on HOST works on switchover ...`",),
            meaning="Another operator works on the switchover, or you do in another terminal.",
            impact=NOTHING_CHANGED,
            mend="Wait for that process; use `--take-over` if it has ended for good.",
            in_line=False,
        ),
        Message(
            "TW-SWITCH-08",
            "Another process continues the switchover",
            "error",
            lines=("`another process writes ... now`",),
            meaning="Another process continues this switchover.",
            impact="This process stops; the other process continues.",
            mend="Leave the switchover to that process, or run the command again after its end.",
            in_line=False,
        ),
        Message(
            "TW-SWITCH-09",
            "An undo was interrupted",
            "error",
            lines=("`switchover east->west is being undone; run it with --abort to complete that`",),
            meaning="An undo was interrupted.",
            impact="Producers may still be fenced.",
            mend="Run `twinlog switchover ... --abort`.",
            in_line=False,
        ),
        Message(
            "TW-SWITCH-10",
            "A step took too long",
            "error",
            lines=("`step ... was not done within 600 s of fencing producers`",),
            meaning="twinlog undid every step: the flow does not run, or is too slow.",
            impact="Every step is undone: producers write to the source as before.",
            mend="Look at `twinlog status`; choose a larger `--timeout`, or a smaller `--near`.",
            in_line=False,
        ),
    ),
)

PAGE = Page(
    "commands",
    "Commands of operators",
    (
        _PLAN,
        _COMMAND,
        _SWITCH,
    ),
)
