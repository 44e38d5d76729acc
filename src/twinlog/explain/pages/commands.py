"""Messages about commands of operators."""

from __future__ import annotations

from twinlog.explain.message import NOTHING_CHANGED, NOTHING_TO_DO, UNAFFECTED, Area, Message, Page
from twinlog.explain.pages.comparisons import CANARY, VERIFY

_PLAN = Area(
    name="PLAN",
    title="Findings of twinlog plan and twinlog diff",
    about="Only `twinlog plan` and `twinlog diff` print these messages.",
    look=("twinlog plan mm2.properties",),
    messages=(
        Message(
            "TW-PLAN-01",
            "A remote topic has foreign records",
            "error",
            lines=("`clash: TOPIC is on WEST with ... of another origin than this flow: ...`",),
            meaning="Another program made the remote topic, or stored positions were lost.",
            impact="A run would append the copies behind the foreign records.",
            mend="Delete or rename the remote topic, or leave the source topic out.",
        ),
        Message(
            "TW-PLAN-02",
            "A remote topic has more partitions",
            "error",
            lines=("`clash: TOPIC has N partitions on WEST, ...`",),
            meaning="The remote topic has more partitions than its source.",
            impact="After a move of producers, records with the same key may come to another partition.",
            mend="Recreate the remote topic, or add partitions to the source topic.",
        ),
        Message(
            "TW-PLAN-03",
            "Two topic names collide",
            "error",
            lines=("`clash: ...: Kafka refuses two names that differ in dots and underscores only; ...`",),
            meaning="The brokers' metrics would confuse the two topics.",
            impact="A run would leave the topic out.",
            mend="Choose another separator, or leave either topic out.",
        ),
        Message(
            "TW-PLAN-04",
            "Records may exceed the limit of a remote topic",
            "warning",
            lines=(("`record-limit: records of up to N bytes (...) may come to TOPIC, which takes N: ...`"),),
            meaning="`max.message.bytes` is smaller on the target.",
            impact="A run would hold the partition at the first record above the limit.",
            mend="Raise `max.message.bytes` on the target, or set `twinlog.oversized.record.policy = skip`.",
        ),
        Message(
            "TW-PLAN-05",
            "The disks of the target are too small",
            "warning",
            lines=(("`disk: SIZE will be written on WEST (N replicas), whose disks have SIZE of room; ...`"),),
            meaning="",
            impact="A run would fill the disks of the target's brokers.",
            mend="Follow the line.",
        ),
        Message(
            "TW-PLAN-06",
            "A part is missing in the comparison",
            "warning",
            lines=("`not compared: ...`",),
            meaning="From `twinlog diff`: the login lacks the permission in the line.",
            impact=UNAFFECTED,
            mend="Grant the permission, or compare the rest.",
            look=("twinlog diff mm2.properties --from east --to west",),
        ),
        Message(
            "TW-PLAN-07",
            "Partitions lack a leader",
            "error",
            lines=("`unread: PARTITIONS of EAST lack a leader: their volume is missing in this plan; ...`",),
            meaning="From `twinlog plan`: no broker of the source leads these partitions.",
            impact="A run would copy these partitions later, once they have a leader.",
            mend="Start the brokers with the replicas of the partitions, and plan again.",
        ),
    ),
)

_AUDIT = Area(
    name="AUDIT",
    title="Findings of twinlog audit",
    about=(
        "The [audit](audit.md) and [`twinlog canary report`](canary.md#compare-both) only print the messages; further "
        "findings have ids of VERIFY, GAP and FILE."
    ),
    look=("twinlog audit mm2.properties",),
    messages=(
        Message(
            "TW-AUDIT-01",
            "A group would skip records",
            "error",
            lines=("`group G would skip N records on WEST`",),
            meaning="The committed offset of the group on the target is behind unread records.",
            impact="The group never reads these records after a failover.",
            mend="Stop the consumers of the group on the target, and set the offsets to the numbers in the line.",
        ),
        Message(
            "TW-AUDIT-02",
            "A group cannot move",
            "warning",
            lines=("`group G is unable to move to WEST in N partitions: ...`",),
            meaning="The line has the reason, for example a group without a committed offset.",
            impact="After a failover the group begins by `auto.offset.reset`.",
            mend="Follow the way out of the line; `twinlog groups` shows each partition.",
        ),
        Message(
            "TW-AUDIT-03",
            "Groups are outside of the filter",
            "warning",
            lines=("`... outside the filter of groups: GROUPS`",),
            meaning="The groups read mirrored topics, and `groups` or `groups.exclude` leaves them out.",
            impact="The groups have no offsets on the target.",
            mend="Add the groups to `groups`, or to `groups.exclude`.",
        ),
        Message(
            "TW-AUDIT-04",
            "The flow does not run",
            "error",
            lines=("`the flow is ...`",),
            meaning="No process copies for this flow, or its state is unknown.",
            impact="Records wait on the source.",
            mend="Start the process, or mend the cause in its log.",
        ),
        Message(
            "TW-AUDIT-05",
            "Topics are outside of the filter",
            "warning",
            lines=("`N topics ... left out with ... like an entry of topics (...): TOPICS`",),
            meaning="Groups of the mirror read the topics, or their names resemble an entry of `topics`.",
            impact="The topics have no copies.",
            mend="Add the topics to `topics`, or to `topics.exclude`.",
        ),
        Message(
            "TW-AUDIT-06",
            "Mirrored topics lack their copies",
            "error",
            lines=("`N mirrored topics lack their copies`",),
            meaning="The filter selects the topics, and the target has no remote topics for them.",
            impact="The records of these topics are missing on the target.",
            mend="See the log of the mirror; a new topic waits for `refresh.topics.interval.seconds`.",
        ),
        Message(
            "TW-AUDIT-07",
            "Settings of topics differ",
            "warning",
            lines=("`N settings differ`",),
            meaning="The numbers of partitions or the settings of a topic and its copy differ.",
            impact="Keys may map to other partitions; retention may differ.",
            mend="Follow the way out of the line; see [two clusters](plan.md#compare-two-clusters).",
        ),
        Message(
            "TW-AUDIT-08",
            "ACLs of topics are missing",
            "warning",
            lines=("`N ACLs of topics are missing`",),
            meaning="The target lacks rights that principals have on the source.",
            impact="Consumers may be refused after a failover.",
            mend="Set `sync.topic.acls.enabled = true`, or add the rights with `kafka-acls.sh`.",
        ),
        Message(
            "TW-AUDIT-09",
            "Topics of the file are missing on the source",
            "error",
            lines=("`EAST lacks N topics of the file, or hides them from the login...: TOPICS`",),
            meaning="`topics` has these names. The source lacks the topics, or the login lacks DESCRIBE on them.",
            impact="The topics have no copies.",
            mend="Correct the names, create the topics, or grant the rights of `twinlog acls FILE --missing`.",
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
            mend=NOTHING_TO_DO,
        ),
        Message(
            "TW-COMMAND-02",
            "A request was refused",
            "warning",
            lines=("`..., asked by HOST-PID: refused: ...`",),
            meaning="The leader refused an operator's change of [single topics](topics.md).",
            impact="The partitions are copied as before.",
            mend="Follow the reason in the line, and repeat the request if needed.",
        ),
        Message(
            "TW-COMMAND-03",
            "Records are passed over by a request",
            "warning",
            lines=("`skip-to passes over N source offsets, never copied: ...`",),
            meaning="An operator asked for the skip.",
            impact="The passed records are missing on the target.",
            mend="To copy the records that the source still holds, run `twinlog topics restart-from`.",
        ),
        Message(
            "TW-COMMAND-04",
            "Requests wait for a cluster",
            "warning",
            lines=("`cannot do what is asked of topics, trying again: ...`",),
            meaning="A cluster is silent, or the process lacks a right on the control topic.",
            impact="Partitions of the request may wait; all other partitions are copied.",
            mend="Follow the reason in the line.",
        ),
        Message(
            "TW-COMMAND-05",
            "A copier still has a partition",
            "info",
            lines=("`copiers still hold T-0`",),
            meaning="A partition of a `twinlog topics` command still has its copier.",
            impact="The partition is copied until the copier has released it.",
            mend="Wait; twinlog cuts off a copier that hangs.",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-06",
            "Single topics stay as they are",
            "info",
            lines=("`nothing can be asked of single topics: ... lacks READ on topic ...`",),
            meaning="The leader lacks a right on the control topic.",
            impact=UNAFFECTED,
            mend="If you want [these commands](topics.md#rights), grant READ and WRITE on the topic.",
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
            meaning="An operator moved a partition before twinlog noticed that its remote log had lost records.",
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
            mend="Look at the present offset, and repeat the request if needed.",
        ),
        Message(
            "TW-COMMAND-09",
            "A request waits for a process",
            "info",
            lines=("`no process runs east->west now: ...; the next process carries it out`",),
            meaning="twinlog has stored the request.",
            impact=UNAFFECTED,
            mend="Start the flow.",
            in_line=False,
        ),
        Message(
            "TW-COMMAND-10",
            "A request names an unknown topic",
            "warning",
            lines=("`... matches no topic that east->west mirrors; ...`",),
            meaning="From `twinlog topics`.",
            impact=UNAFFECTED,
            mend="Write a topic from the line; a pattern must match a whole name.",
        ),
        Message(
            "TW-COMMAND-11",
            "A request needs the source",
            "warning",
            lines=("`... may be a topic or a partition, and the source is silent: ...`",),
            meaning="From `twinlog topics`: the request was discarded.",
            impact=UNAFFECTED,
            mend="Write `--partition`, or wait for the source.",
        ),
        Message(
            "TW-COMMAND-12",
            "The arrived records of a partition are unknown",
            "warning",
            lines=("`the arrived records of T-0 are unknown: ...`",),
            meaning=(
                "Before a move twinlog looks for records after the last stored position, and the remote log is "
                "unreadable."
            ),
            impact="If the request goes back, some records are copied a second time.",
            mend="Follow the reason at the end of the line, and repeat the request if needed.",
        ),
        Message(
            "TW-COMMAND-13",
            "The topics of a request are unchecked",
            "warning",
            lines=("`the source is silent, so the topics are unchecked: ...`",),
            meaning="`twinlog topics pause` and `resume` take the names as they are while the source is silent.",
            impact="A misspelt name pauses no topic.",
            mend="Compare the names with `twinlog topics list` once the source answers.",
        ),
        Message(
            "TW-COMMAND-14",
            "A request still waits",
            "error",
            lines=("`the command is written, and still waits for the process that runs the flow. ...`",),
            meaning="The process that runs the flow has not read the request within `--timeout`, or lacks a right.",
            impact="The partitions are as before until the process carries out the request.",
            mend="Look at `twinlog topics list`, and grant READ and WRITE on the topic that the line names.",
        ),
        Message(
            "TW-COMMAND-15",
            "The level of the log is as before",
            "error",
            lines=(
                "`no process runs FLOW now: STATE; a level of the log ends with its process, so nothing was changed`",
                "`the process that runs the flow has not taken the level over within N s: ...`",
            ),
            meaning="From `twinlog log-level`: no process runs the flow, or it has an earlier version, or lacks READ.",
            impact="None for records: the log has the same lines as before.",
            mend="Look at `twinlog status`, and repeat the command once a process runs the flow.",
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
            meaning="Super users, a producer below the quota, or running producers with `--fence none` pass the fence.",
            impact="The switchover waits; records are copied.",
            mend=(
                "Stop the producers; twinlog continues by itself. To undo the switchover, press Ctrl-C and run it with "
                "`--abort` in another terminal."
            ),
        ),
        Message(
            "TW-SWITCH-02",
            "A record came after the cut",
            "warning",
            lines=(("`watch: somebody wrote to TOPIC on CLUSTER after the cut: stop that; it is copied, too`"),),
            meaning="A super user passed the fence after twinlog had released the producers.",
            impact="The late records are on the target behind newer records.",
            mend="Stop this producer. The report has the offsets of its copied records.",
        ),
        Message(
            "TW-SWITCH-03",
            "A topic is written in spite of the fence",
            "error",
            lines=(("`somebody writes to TOPIC on CLUSTER in spite of the fence, or it is not copied; ...`"),),
            meaning="A producer still writes, or the flow does not run; all other producers write to the target.",
            impact="The late records wait on the source.",
            mend="Stop the producer, let the flow run, and run the same command again.",
        ),
        Message(
            "TW-SWITCH-04",
            "An abort came too late",
            "error",
            lines=("`switchover east->west: producers may write to west already; ...`",),
            meaning="`--abort` came too late: producers could write to both clusters.",
            impact=NOTHING_CHANGED,
            mend="Complete the same command, and go back with `switchback`.",
        ),
        Message(
            "TW-SWITCH-05",
            "Two waves have the same topic",
            "error",
            lines=("`TOPIC: fenced already by wave NAME of switchover east->west; ...`",),
            meaning="The release of either wave's fence would release the other fence.",
            impact=NOTHING_CHANGED,
            mend="Run `--release` of that wave, or choose another file.",
        ),
        Message(
            "TW-SWITCH-06",
            "The switchover waits for transactions",
            "warning",
            lines=("`settle: waits for transactions to end: ...`",),
            meaning="A producer died within a transaction.",
            impact="The switchover waits; producers are fenced meanwhile.",
            mend="Wait for the transaction timeout, or run `kafka-transactions.sh abort`.",
        ),
        Message(
            "TW-SWITCH-07",
            "Another operator works on the switchover",
            "error",
            lines=("`process PID on HOST works on switchover ...; without a further entry it counts as ended in N s`",),
            meaning="Another operator works on the switchover, or you do in another terminal.",
            impact=NOTHING_CHANGED,
            mend="Wait for that process, or for its N seconds. If it has ended for good, use `--take-over`.",
        ),
        Message(
            "TW-SWITCH-08",
            "Another process continues the switchover",
            "error",
            lines=("`another process writes ... now`",),
            meaning="",
            impact="This process stops; the other process continues.",
            mend="Leave the switchover to that process, or run the command again after its end.",
        ),
        Message(
            "TW-SWITCH-09",
            "An undo was interrupted",
            "error",
            lines=("`switchover east->west is being undone; run it with --abort to complete that`",),
            meaning="",
            impact="Producers may still be fenced.",
            mend="Run `twinlog switchover ... --abort`.",
        ),
        Message(
            "TW-SWITCH-10",
            "A step took too long",
            "error",
            lines=(
                "`step ... was not done within 600 s of fencing producers: ...; everything was undone, ...`",
                "`step catch-up was not done within 600 s, and producers were not fenced: ...`",
            ),
            meaning="The flow does not run, or is too slow.",
            impact="Every step is undone: producers write to the source as before.",
            mend="Run `twinlog status`. Then run the same command again, if needed with a larger `--timeout`.",
        ),
        Message(
            "TW-SWITCH-11",
            "The command does not fit the switchover",
            "error",
            lines=(
                "`a switchover east->west of another kind (planned) has begun; complete it, or undo it with --abort`",
                "`switchover east->west: nothing is under way`",
                "`switchover east->west must be done before its fence can be released`",
                "`switchover east->west in the journal has ..., and this file ...; ...`",
            ),
            meaning="The journal has another switchover, or a switchover in another state than the command needs.",
            impact=NOTHING_CHANGED,
            mend="Look with `--status`, and use the options and the file that the switchover began with.",
            look=("twinlog switchover mm2.properties --from east --to west --status",),
        ),
        Message(
            "TW-SWITCH-12",
            "The clusters are not ready for a switchover",
            "error",
            lines=(
                "`TOPICS: nothing is copied yet, by the positions on WEST; ...`",
                "`N partitions of EAST have no leader`",
                "`this login lacks ALTER on cluster EAST, needed for --fence acl; ...`",
                "`... lacks WRITE on ..., needed for the journal of switchovers; ...`",
                "`orders-3 is paused with N records to copy; ...`",
                "`no process of flow east->west is in its group, and nothing was copied during the check: ...`",
            ),
            meaning="The pre-flight checks found an obstacle before the first change.",
            impact=NOTHING_CHANGED,
            mend="Follow each line, and run the rehearsal until it prints no obstacle.",
        ),
        Message(
            "TW-SWITCH-13",
            "A step of a switchover failed",
            "error",
            lines=("`twinlog: ...`",),
            meaning="A step ended with the error of the line; the next line names the last step.",
            impact="Producers may still be fenced, as the next line says.",
            mend="Run the same command again: it continues at this step. `--abort` undoes the switchover.",
        ),
        Message(
            "TW-SWITCH-14",
            "The flow copies nothing",
            "warning",
            lines=("`catch-up: N records left; nothing is copied: flow east->west must run`",),
            meaning="The positions of the flow stay the same, so no process runs the flow, or the flow waits.",
            impact="The switchover waits until `--timeout`; producers write to the source as before.",
            mend="Start the flow, or look at `twinlog status`; the switchover continues by itself.",
        ),
        Message(
            "TW-SWITCH-15",
            "Producers write to the target too early",
            "warning",
            lines=(
                "`settle: waits until the copies stand still; TOPICS grows on WEST: producers must not write ...`",
                "`the copies of TOPICS on WEST have grown for 600 s; stop flow EAST->WEST and ...`",
            ),
            meaning="From an emergency switchover: a remote topic gets new records.",
            impact="The switchover waits until `--timeout`.",
            mend="Stop the producers on the target until the switchover has reached the step `open`.",
        ),
        Message(
            "TW-SWITCH-16",
            "The journal of a switchover is silent",
            "error",
            lines=(
                (
                    "`cluster WEST, which keeps the journal of switchover east->west, gave no answer, and no journal "
                    "is known: ...`"
                ),
                "`cluster WEST, which keeps the journal of switchover east->west, is silent now; as last read: ...`",
            ),
            meaning=(
                "The line before has the error of a cluster. The journal is on the cluster to move to, also with "
                "`--emergency`, which continues without the source only. Without a known journal this command ran no "
                "step."
            ),
            impact="Producers may be fenced by an earlier switchover, or by the last read step.",
            mend=(
                "Start the cluster to move to, or correct its `bootstrap.servers`. Then `--status` prints the state, "
                "and the same command continues. For a lost journal see "
                "[the journal](switchover.md#when-it-is-interrupted)."
            ),
            look=("twinlog switchover mm2.properties --from east --to west --status",),
        ),
        Message(
            "TW-SWITCH-17",
            "The end of a console interrupts a switchover",
            "warning",
            lines=("`switchover east->west is interrupted; continue it on the page of the switchover, or by ...`",),
            meaning="A switchover that the console carried out was under way when the console ended.",
            impact="Producers may be fenced. The journal has every finished step.",
            mend="Start the console, and choose `Continue` or `Undo`; or run `twinlog switchover` with the same file.",
            look=("twinlog switchover mm2.properties --from east --to west --status",),
        ),
        Message(
            "TW-SWITCH-18",
            "The switchover waits for a paused partition",
            "warning",
            lines=("`catch-up: T-0 is paused with N records to copy; have it copied by ...`",),
            meaning="An operator paused the topic or the partition by [`twinlog topics pause`](topics.md#pauses).",
            impact="The switchover waits; in a step after `fence` producers wait, too.",
            mend="Run the command in the line; the switchover continues by itself.",
            look=("twinlog topics list mm2.properties",),
        ),
        Message(
            "TW-SWITCH-19",
            "The switchover waits for the proof of equality",
            "warning",
            lines=(
                "`catch-up: ...; the proof of equality is N s behind`",
                "`drain: ... to prove equal: T-0 is proven up to N, the cut is N`",
                "`drain: ... to prove equal: T-0 lacks a proof; the flow must run with its proof`",
            ),
            meaning=(
                "The flow proved these topics when the switchover began, see [proof](proof.md#switchover). The prover "
                "is slow, the target refuses its fetches, or the flow was restarted without `twinlog.proof` or "
                "`--prove`."
            ),
            impact=(
                "The switchover waits; in a step after `fence` producers wait, too, and `--timeout` undoes the "
                "switchover."
            ),
            mend=(
                "Look at the line `proof` of `twinlog status`, and for `TW-PROOF-02` in the log of the "
                "flow. Start the flow with its proof. Without the proof as its gate a switchover begins when the flow "
                "runs without it: `--abort` this one first."
            ),
            look=("twinlog status mm2.properties",),
        ),
        Message(
            "TW-SWITCH-20",
            "A part of a switchover was refused",
            "error",
            lines=(
                "`commits of GROUPS on WEST would be refused: User:mirror lacks READ on topic TOPIC of WEST; ...`",
                "`WEST refused the commit of group GROUP in TOPIC-0 at N: ...; then run the same command again: ...`",
                "`the offsets of GROUPS on EAST were unreadable: ...`",
                "`create topic TOPIC on WEST: ...`",
                "`TOPIC was not moved, as the check did not see it: its producers write to EAST unfenced; ...`",
            ),
            meaning=(
                "The rehearsal finds missing rights, and the step `topics` the rights on topics that it has created. "
                "The other lines belong to a switchover that is done otherwise. Brokers hide a topic from a login "
                "without DESCRIBE: after a grant, the same command names the unmoved topic."
            ),
            impact="The groups of the line do not continue on the target; all other groups and the records are there.",
            mend=(
                "Grant the right before consumers of these groups start, and run the same command again: after the end "
                "it only commits offsets."
            ),
            look=("twinlog acls mm2.properties --for switchover --missing",),
        ),
    ),
)

PAGE = Page(
    "commands",
    "Commands of operators",
    (
        _PLAN,
        VERIFY,
        _AUDIT,
        CANARY,
        _COMMAND,
        _SWITCH,
    ),
)
