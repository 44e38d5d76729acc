"""Messages about the keys and values of a file, by the kinds of `twinlog.errors.mistakes`."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_CHANGED, UNAFFECTED, Message

KEYS_AND_VALUES = (
    Message(
        "TW-FILE-01",
        "A key is unknown",
        "error",
        lines=(
            "`FILE:LINE: error: KEY: unknown key; did you mean KEY?`",
            "`FILE:LINE: warning: KEY: unknown key, ignored; did you mean KEY?`",
        ),
        meaning="twinlog's list lacks the key, or `clusters` lacks its alias. MirrorMaker 2 ignores the key silently.",
        impact=NOTHING_CHANGED,
        mend=(
            "Write the key in the line. To ignore unknown keys with a warning, write `twinlog.unknown.keys = "
            "warn`; `connect-mirror-maker` and Connect workers only warn."
        ),
    ),
    Message(
        "TW-FILE-02",
        "A line has two equals signs",
        "error",
        lines=("`FILE:LINE: error: KEY: ...; a second = belongs to the value`",),
        meaning="Java's properties end the key at the first equals sign.",
        impact=NOTHING_CHANGED,
        mend="Write a single equals sign.",
    ),
    Message(
        "TW-FILE-03",
        "A text is read in another way",
        "warning",
        lines=(
            "`FILE:LINE: warning: KEY: VALUE is read as VALUE: ...`",
            "`FILE:LINE: warning: KEY: a comment after a value is part of the value in a properties file; read as ...`",
            "`FILE:LINE: warning: KEY: an old name; write KEY`",
        ),
        meaning=(
            "MirrorMaker 2 reads the text in another way, or from another key. twinlog's value is at least as safe."
        ),
        impact=UNAFFECTED,
        mend="To silence the line, write the second text.",
    ),
    Message(
        "TW-FILE-04",
        "A regular expression is wrong",
        "error",
        lines=("`FILE:LINE: error: KEY: ..., at character N of ...; write ...`",),
        meaning=(
            "Names are matched by Java's regular expressions: write `.*[.]payments` for `*.payments`. A list is "
            "split at every comma, also inside of braces."
        ),
        impact=NOTHING_CHANGED,
        mend=("Write the expression in the line, or correct the character. The count leaves out doubled backslashes."),
    ),
    Message(
        "TW-FILE-05",
        "A regular expression is too slow",
        "error",
        lines=(("`KEY: more than 1 s for the name NAME, as the body of a repeat can match in many ways ...`"),),
        meaning="A match of the expression would take very long.",
        impact="Topics and groups that appear later wait until the expression has changed.",
        mend="Give the expression a single way to match: `[ab]+` for `(a|b)+`, `a+` for `(a+)+`.",
    ),
    Message(
        "TW-FILE-06",
        "Fields of Strimzi's resource are ignored",
        "warning",
        lines=("`FILE:LINE: warning: these fields are ignored here: ...`",),
        meaning="These fields have a meaning only on Kubernetes.",
        impact=UNAFFECTED,
        mend="There is nothing to do: see [the fields](strimzi.md#fields).",
    ),
    Message(
        "TW-FILE-07",
        "A config provider has an unsupported class",
        "warning",
        lines=("`FILE:LINE: warning: config.providers.NAME.class: the Java class CLASS is unsupported here; ...`",),
        meaning="`config.providers` lists a provider from outside of Kafka.",
        impact=UNAFFECTED,
        mend="If a value uses the provider, [mount the secret as a file](security.md#secrets).",
    ),
    Message(
        "TW-FILE-08",
        "A reference leads nowhere",
        "error",
        lines=(
            (
                "`FILE:LINE: error: KEY: ${env:NAME}: the variable NAME is unset; set it before the start: "
                "export NAME=VALUE`"
            ),
            (
                "`FILE:LINE: error: KEY: ${...} needs the Java class CLASS (... of line N), which is "
                "unsupported here; ...`"
            ),
            "`FILE:LINE: error: KEY: the key KEY of NAME is missing: ...`",
        ),
        meaning=(
            "A value refers to a missing or unreadable variable, file, Secret or provider. Kafka would take the "
            "reference's text for the value."
        ),
        impact=NOTHING_CHANGED,
        mend=(
            "Follow the line. See secrets [of a file](security.md#secrets) and [of a "
            "resource](strimzi.md#secrets-and-config-maps)."
        ),
    ),
    Message(
        "TW-FILE-11",
        "The separator is empty",
        "warning",
        lines=(
            (
                "`FILE:LINE: warning: KEY: with an empty separator FLOW creates a remote topic with the "
                "settings of its source, ...`"
            ),
        ),
        meaning=("With an empty `replication.policy.separator` MirrorMaker 2 recognises no remote topic by its name."),
        impact="Each remote topic keeps the settings of its creation.",
        mend=(
            "Choose the identity policy, as in the line: names and positions stay, see [names that are "
            "kept](configuration.md#names-that-are-kept)."
        ),
    ),
    Message(
        "TW-FILE-12",
        "Source and target have the same alias",
        "warning",
        lines=(
            (
                "`FILE:LINE: warning: KEY: FLOW calls source and target NAME, so that the identity policy "
                "takes every topic for a copy from the target`"
            ),
        ),
        meaning="Both clusters have the same alias.",
        impact="The flow copies heartbeats only, as in MirrorMaker 2.",
        mend="Leave out `target.cluster.alias`.",
    ),
    Message(
        "TW-FILE-13",
        "Names follow another alias",
        "warning",
        lines=(
            "`FILE:LINE: warning: KEY: remote topics and stored positions are named after ...`",
            "`FILE:LINE: warning: KEY: offset syncs and heartbeats are named after ...`",
        ),
        meaning="`source.cluster.alias` or `target.cluster.alias` differs from the alias of the cluster.",
        impact=UNAFFECTED,
        mend="If these names are intended, there is nothing to do: MirrorMaker 2 uses the same names.",
    ),
    Message(
        "TW-FILE-14",
        "Two flows write offset syncs to the same topic",
        "warning",
        lines=("`FILE:LINE: warning: KEY: flows A and B write offset syncs to the same topic, ...`",),
        meaning="Both targets have the same `target.cluster.alias`, or an empty alias.",
        impact="Clients of MirrorMaker 2 may use syncs of the wrong flow: groups then skip or repeat records.",
        mend="Give each flow its own alias, as in the line.",
    ),
    Message(
        "TW-FILE-15",
        "Records could return to their first cluster",
        "error",
        lines=(
            "`FILE:LINE: error: KEY: the flows ... call remote topics differently, ...`",
            "`FILE:LINE: warning: KEY: flow A: source and target share a bootstrap server`",
        ),
        meaning=(
            "The file has two separators or policies, an alias with the separator inside, or two aliases for the "
            "same cluster."
        ),
        impact=(
            "twinlog leaves out topics that would return to their origin. As an error: nothing starts, because "
            "every flow of the cycle would leave them out."
        ),
        mend=(
            "Give all flows of the cycle the same `replication.policy.separator` and `replication.policy.class`, "
            "or keep their `topics` apart."
        ),
    ),
    Message(
        "TW-FILE-16",
        "All flows to a cluster are off",
        "warning",
        lines=("`FILE: warning: all flows to WEST are off; only heartbeats are written there`",),
        meaning="`connect-mirror-maker` starts with a file without enabled flows, as MirrorMaker 2 does.",
        impact="The cluster receives heartbeats only.",
        mend="To copy topics, write `A->B.enabled = true`, without blanks around `->`.",
    ),
    Message(
        "TW-FILE-17",
        "A connector writes to another cluster than its worker's",
        "warning",
        lines=("`connector NAME: warning: by its address ... its target is another cluster than the worker's, ...`",),
        meaning=(
            "twinlog stores positions on the connector's target; Kafka's worker would look for them on its own cluster."
        ),
        impact=UNAFFECTED,
        mend="If both are the same cluster, give both the same `bootstrap.servers`.",
    ),
    Message(
        "TW-FILE-19",
        "A key is ignored",
        "warning",
        lines=(
            "`FILE:LINE: warning: KEY: ignored here; write KEY`",
            "`FILE:LINE: warning: these keys are ignored here: KEYS`",
            "`FILE:LINE: warning: KEY: loses against KEY of line N; write KEY`",
        ),
        meaning=("The key is ineffective at its place, another line wins, or only Kafka's Java processes use the key."),
        impact=UNAFFECTED,
        mend="Write the key in the line, or remove the line; see [keys without effect](ignored-keys.md).",
    ),
    Message(
        "TW-FILE-20",
        "A setting is lost in another form",
        "warning",
        lines=("`not converted: FILE:LINE: KEY: ...`",),
        meaning="The output form of `twinlog convert` lacks an equivalent of the setting.",
        impact="The written file lacks the setting; the running flow is unaffected.",
        mend="Leave the setting out, or choose another form.",
        look=("twinlog convert mm2.properties -o connectors",),
    ),
    Message(
        "TW-FILE-21",
        "A setting is probably a mistake",
        "warning",
        lines=("`FILE:LINE: KEY: ...`",),
        meaning="The file is legal; the line names a surprising effect.",
        impact="The flow runs with the setting as the line describes it.",
        mend="Correct the key in the file. `twinlog check FILE` prints the warnings without a run.",
    ),
    Message(
        "TW-FILE-22",
        "A value is wrong",
        "error",
        lines=(
            "`FILE:LINE: error: KEY: VALUE is invalid; write ...`",
            "`FILE:LINE: error: KEY: VALUE has a unit; write N, because this key counts seconds`",
        ),
        meaning="The value has another form, or is outside of its limits.",
        impact=NOTHING_CHANGED,
        mend=(
            "Write the value in the line, for example `refresh.topics.interval.seconds = 30`, and run `twinlog "
            "check FILE` again."
        ),
    ),
)
