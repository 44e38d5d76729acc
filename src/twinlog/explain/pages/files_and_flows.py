"""Messages about whole files, logins, code of the user, and flows that contradict each other."""

from __future__ import annotations

from twinlog.explain.message import NOTHING_CHANGED, UNAFFECTED, Message

FILES_AND_FLOWS = (
    Message(
        "TW-FILE-23",
        "A file is unreadable",
        "error",
        lines=("`FILE: error: ...; give a readable properties file`",),
        meaning="The file is missing, binary, in another encoding, or closed to this user.",
        impact=NOTHING_CHANGED,
        mend="Correct the path on the command line, or let this user read the file.",
    ),
    Message(
        "TW-FILE-24",
        "The text of a file is broken",
        "error",
        lines=(
            "`FILE:LINE: error: broken JSON: a comma before the closing }; remove the comma`",
            "`FILE:LINE: error: a tab indents this line; replace it by blanks, ...`",
        ),
        meaning="The file is no properties text, JSON or YAML at this line; the lines after it were not read.",
        impact=NOTHING_CHANGED,
        mend="Correct the line.",
    ),
    Message(
        "TW-FILE-25",
        "The file belongs to another command",
        "error",
        lines=("`FILE: error: this is the file of a Connect worker, which runs with: twinlog connect FILE; give ...`",),
        meaning="The content of the file is for another program than the command.",
        impact=NOTHING_CHANGED,
        mend="Use the command that the line names, or give the file that the command reads.",
    ),
    Message(
        "TW-FILE-26",
        "A key is missing",
        "error",
        lines=("`FILE: error: KEY: missing; write ...`",),
        meaning="The file lacks a key that the flow needs.",
        impact=NOTHING_CHANGED,
        mend="Add the key, for example `east.bootstrap.servers = east-1.example.com:9092`.",
    ),
    Message(
        "TW-FILE-27",
        "No topic can have that name",
        "error",
        lines=(("`FILE:LINE: error: KEY: ... matches no topic, because a topic name holds no blank; write ...`"),),
        meaning=(
            "An entry of `topics` or `topics.exclude` matches no topic: MirrorMaker 2 splits the list at "
            "commas alone, and a topic name holds a-z A-Z 0-9 . _ - only."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Write commas between topics, without quotes: `topics = orders, payments.*`. "
            "`connect-mirror-maker` starts as MirrorMaker 2 does, with a warning."
        ),
    ),
    Message(
        "TW-FILE-28",
        "A login is wrong",
        "error",
        lines=("`FILE:LINE: error: KEY: VALUE is invalid; write PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`",),
        meaning=(
            "`sasl.mechanism`, `sasl.jaas.config` or a setting of a token is wrong, or needs Java, as "
            "Kerberos and the IAM login of Amazon MSK do."
        ),
        impact=NOTHING_CHANGED,
        mend="Write the setting as the line says; [Security](security.md) has an example for each login.",
    ),
    Message(
        "TW-FILE-29",
        "A setting of TLS is wrong",
        "error",
        lines=("`FILE:LINE: error: KEY: VALUE is invalid; write TLSv1.2, TLSv1.3 or TLS`",),
        meaning="A setting `ssl.*` has an unknown value, or contradicts another setting.",
        impact=NOTHING_CHANGED,
        mend="Write the setting as the line says; see [encrypted clusters](security.md#encrypted-clusters).",
    ),
    Message(
        "TW-FILE-30",
        "A key store is unusable",
        "error",
        lines=(
            "`FILE:LINE: error: KEY: FILE is unreadable (...); give a file that this process may read`",
            "`FILE:LINE: error: KEY: fails to open the file, or the file is damaged; give ...`",
        ),
        meaning="A key store or trust store is missing, damaged, of another type, or has another password.",
        impact=NOTHING_CHANGED,
        mend=(
            "Correct the path, the type or the password; `keytool -list -keystore FILE` shows whether Java "
            "opens the file."
        ),
    ),
    Message(
        "TW-FILE-31",
        "A class is unknown",
        "error",
        lines=("`FILE:LINE: error: KEY: CLASS is invalid; write ...`",),
        meaning=(
            "The key takes Kafka's own classes, or a class of your own in Python. Java classes of others "
            "cannot run here."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Write a class that the line names. For a class that keeps the names of topics write "
            "`org.apache.kafka.connect.mirror.IdentityReplicationPolicy`; for your own rules see [custom "
            "classes](custom-classes.md)."
        ),
    ),
    Message(
        "TW-FILE-32",
        "Code of your own fails",
        "error",
        lines=("`FILE:LINE: error: KEY: ... raises ...; expected ...`",),
        meaning="The check called your class or function once, and it failed or returned another type.",
        impact=NOTHING_CHANGED,
        mend="Correct the code at the error that the line quotes; see [custom classes](custom-classes.md).",
    ),
    Message(
        "TW-FILE-33",
        "A transform is wrong",
        "error",
        lines=("`FILE:LINE: error: KEY: transforms lacks NAME; write ...`",),
        meaning="A setting of `transforms`, `predicates`, `transform` or `transform.sql` is wrong.",
        impact=NOTHING_CHANGED,
        mend=(
            "Write the setting as the line says; see [transforms of Connect](smt.md) and [transforms in "
            "Python and SQL](transforms.md)."
        ),
    ),
    Message(
        "TW-FILE-34",
        "Two settings contradict each other",
        "warning",
        lines=(
            (
                "`FILE:LINE: warning: KEY: FLOW also copies records of open and aborted transactions; write "
                "KEY = read_committed`"
            ),
        ),
        meaning="A setting needs another setting that the file lacks.",
        impact="The flow runs; exactly-once copying includes records of aborted transactions.",
        mend="Write the second setting, as in the line.",
    ),
    Message(
        "TW-FILE-35",
        "No flow is enabled",
        "error",
        lines=("`FILE: error: enabled: all flows are off; write an enabled flow, ...`",),
        meaning="No key `A->B.enabled` is true, so nothing would be copied.",
        impact=NOTHING_CHANGED,
        mend=(
            "Write `A->B.enabled = true` with the aliases of `clusters`. For heartbeats alone write "
            "`emit.heartbeats.enabled = true`."
        ),
    ),
    Message(
        "TW-FILE-36",
        "Two sources have the same remote topic",
        "error",
        lines=(
            (
                "`FILE:LINE: error: KEY: flows A and B both write TOPICS on WEST, because topic names are "
                "kept (identity policy): ...`"
            ),
        ),
        meaning=(
            "Two flows keep the names of topics, and their `topics` overlap. MirrorMaker 2 mixes the records "
            "of both sources in one topic; twinlog copies such a topic from a single source, because offsets "
            "of two sources have no order in it."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Keep `topics` of the flows apart, or use the default policy, so that each source has remote "
            "topics of its own. If the two clusters have no topic in common, write `twinlog.shared.topics = "
            "first`. `connect-mirror-maker` starts with a warning."
        ),
    ),
    Message(
        "TW-FILE-37",
        "Two directions would copy a topic for ever",
        "error",
        lines=(
            "`FILE:LINE: error: KEY: flows A and B both mirror TOPICS and keep the name (identity policy): ...`",
            (
                "`FILE:LINE: warning: KEY: flows A and B: as topic names are kept (identity policy), a topic "
                "that both mirror would be copied in a cycle for ever ...`"
            ),
        ),
        meaning=(
            "Both directions keep the names of topics, and their `topics` overlap. MirrorMaker 2 would copy "
            "each record to and fro for ever; twinlog leaves the topic out in both directions."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Keep `topics` of the two directions apart, or use the default policy. As a warning, the line "
            "means that the lists may or may not overlap."
        ),
    ),
    Message(
        "TW-FILE-38",
        "A key is written twice",
        "warning",
        lines=("`FILE:LINE: warning: KEY: already written at line N; this line counts`",),
        meaning="The file has the key twice. The last line counts, as in every properties file.",
        impact=UNAFFECTED,
        mend="Remove one of the lines.",
    ),
    Message(
        "TW-FILE-39",
        "An expression probably means something else",
        "warning",
        lines=(
            ("`FILE:LINE: warning: KEY: ... is a regular expression, and its * repeats the character before it; ...`"),
        ),
        meaning="The expression is legal, and matches other names than a reader expects.",
        impact="The flow copies the names that the expression matches.",
        mend="Write the expression that the line names.",
    ),
    Message(
        "TW-FILE-40",
        "A part of a flow is off",
        "warning",
        lines=(
            (
                "`FILE:LINE: warning: KEY: with offset syncs off, checkpoints and offsets of groups are off "
                "in the flow FLOW, ...`"
            ),
        ),
        meaning="The file turns a part on that needs another part, which is off.",
        impact="Consumer groups have no offsets on the target, or a dead-letter topic stays empty, as the line says.",
        mend="Turn the other part on, or turn this part off to silence the line.",
    ),
    Message(
        "TW-FILE-41",
        "A config provider is undeclared",
        "error",
        lines=("`FILE:LINE: error: KEY: ... stays as it is, because ...; write ...`",),
        meaning=(
            "A value refers to a provider that `config.providers` lacks. Kafka leaves the text as it is, so "
            "that the text itself would be the password."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Add the two lines that the message names. `connect-mirror-maker` starts with a warning, as "
            "MirrorMaker 2 does without one."
        ),
    ),
    Message(
        "TW-FILE-42",
        "An effect differs from MirrorMaker 2",
        "info",
        lines=("`FILE:LINE: note: KEY: ...`",),
        meaning=(
            "`twinlog check --was RELEASE` names each effect that the file had in MirrorMaker 2 of that "
            "release, and has no longer."
        ),
        impact=UNAFFECTED,
        mend="For information only; the line names the setting that keeps the old effect.",
    ),
)
