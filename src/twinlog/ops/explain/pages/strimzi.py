"""Messages about Strimzi's resource."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_TO_DO, UNAFFECTED, Area, Message

STRIMZI = Area(
    name="STRIMZI",
    title="Strimzi's resource",
    about=(
        "A worker follows the file of a `KafkaMirrorMaker2` resource and keeps connectors as the resource describes "
        "them."
    ),
    look=(
        "twinlog check mirror.yaml --secrets /mnt/secrets",
        "twinlog connectors list",
    ),
    messages=(
        Message(
            "TW-STRIMZI-01",
            "The worker needs a restart for its new settings",
            "error",
            lines=(
                ("`... the target, its login or the worker's own settings have changed: restart this process; ...`"),
            ),
            meaning="A running worker keeps its cluster.",
            impact="Connectors continue with the earlier settings of the resource.",
            mend="Restart the worker: until then, changes of the file are ignored.",
        ),
        Message(
            "TW-STRIMZI-02",
            "A connector is outside of the resource",
            "warning",
            lines=("`... connector NAME is outside of this resource, and stays as it is`",),
            meaning="Another program or person created the connector in the same group.",
            impact=UNAFFECTED,
            mend="Delete the connector, or leave it.",
        ),
        Message(
            "TW-STRIMZI-03",
            "A Secret of a connector has changed",
            "info",
            lines=("`... a Secret of connector NAME has changed, it is restarted`",),
            meaning="The Secret has a new certificate or password.",
            impact="The connector pauses for some seconds and continues at its stored position.",
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-STRIMZI-04",
            "The login of the worker has changed",
            "error",
            lines=("`... the worker's own login has changed: restart this process`",),
            meaning="A Secret of the target has changed; connectors use the new login, the worker uses the old login.",
            impact="Copying stops when the old login expires.",
            mend="Restart the process before the old login expires.",
        ),
        Message(
            "TW-STRIMZI-05",
            "A connector keeps its earlier settings",
            "error",
            lines=("`connector NAME stays as it is: ...`",),
            meaning="twinlog refuses the connector's new settings; the line ends with the error.",
            impact="The connector continues with its earlier settings.",
            mend="Correct the settings in the resource.",
            look=(
                "twinlog connectors status",
                "twinlog check mirror.yaml",
            ),
        ),
        Message(
            "TW-STRIMZI-06",
            "The resource pauses its reconciliation",
            "warning",
            lines=("`... is true: connectors stay as they are, and new connectors wait`",),
            meaning="The resource has the annotation `strimzi.io/pause-reconciliation`.",
            impact=UNAFFECTED,
            mend="Remove the annotation.",
        ),
        Message(
            "TW-STRIMZI-07",
            "Two resources share a group",
            "error",
            lines=(("`...: this resource is ignored: connectors of its group belong to another resource (...)`"),),
            meaning="Two resources have the same target and the same group, as v1beta2 has by default.",
            impact="The connectors of the other resource continue; this resource waits.",
            mend=(
                "Give this resource its own `group.id` and its own three topics. If this resource replaces the other "
                "resource, delete the replaced connectors: positions stay."
            ),
        ),
        Message(
            "TW-STRIMZI-08",
            "A new alias would copy everything again",
            "error",
            lines=("`...: connector ... waits to be created, and ... stays: under another alias ...`",),
            meaning="The resource has a new alias for a source whose topics keep their names.",
            impact="The new connector waits until its positions are set; the old connector continues.",
            mend="Write the earlier alias again, or [take the positions along](strimzi.md#offsets).",
            look=("twinlog connectors offsets list 'east->west.MirrorSourceConnector' -o json",),
        ),
        Message(
            "TW-STRIMZI-09",
            "A request for offsets waits",
            "warning",
            lines=("`...: strimzi.io/connector-offsets: ...: tried again: ...`",),
            meaning="The line ends with the reason.",
            impact=UNAFFECTED,
            mend="Follow the reason, or remove the annotation.",
        ),
        Message(
            "TW-STRIMZI-10",
            "A failed connector is restarted",
            "warning",
            lines=("`connector NAME failed and is restarted, for the ... time`",),
            meaning="The resource has `autoRestart`.",
            impact="The connector waits until the restart succeeds, and continues at its stored position.",
            mend="The connector's status has the reason.",
            look=("twinlog connectors status",),
        ),
        Message(
            "TW-STRIMZI-11",
            "The file of the resource is unreadable",
            "warning",
            lines=("`FILE cannot be read, what was read before stays in effect: ...`",),
            meaning="The file was deleted, is on a lost volume, or lacks a permission.",
            impact="Connectors continue with the last version that twinlog has read.",
            mend="Put the file back, or grant the permission: twinlog reads the file within a second.",
            look=("ls -l mirror.yaml",),
        ),
        Message(
            "TW-STRIMZI-12",
            "A step of the resource is tried again",
            "warning",
            lines=("`FILE: tried again: ...`",),
            meaning="A step failed: the group elects a leader, or the worker's topics are silent.",
            impact="Running connectors continue; changes of the resource wait.",
            mend=(
                "Wait: twinlog tries again each second. If the line returns for minutes, follow the reason at its end."
            ),
        ),
        Message(
            "TW-STRIMZI-13",
            "An annotation is wrong",
            "error",
            lines=("`FILE: metadata.annotations: ...`",),
            meaning="An annotation has a value that Strimzi refuses as well, or names an unknown connector.",
            impact=UNAFFECTED,
            mend=(
                "Correct the annotation, for example `strimzi.io/restart-connector: "
                '"east->west.MirrorSourceConnector"`, or remove it.'
            ),
        ),
        Message(
            "TW-STRIMZI-14",
            "A connector to restart is unknown",
            "error",
            lines=("`FILE: ...`",),
            meaning="An annotation asks for the restart of a connector or task that the group lacks.",
            impact=UNAFFECTED,
            mend="Write a name from `twinlog connectors list`, and the number of a running task.",
            look=("twinlog connectors list",),
        ),
        Message(
            "TW-STRIMZI-15",
            "An annotation has changed offsets",
            "warning",
            lines=("`connector NAME: an annotation asks for it: ...`",),
            meaning="The worker has altered or reset positions for the annotation `strimzi.io/connector-offsets`.",
            impact=(
                "After a later position, skipped records stay uncopied; after an earlier position, records are copied "
                "a second time."
            ),
            mend=(
                "To undo the change, stop the connector and write the earlier positions with `twinlog connectors "
                "offsets alter`."
            ),
            look=("twinlog connectors offsets list 'east->west.MirrorSourceConnector'",),
        ),
        Message(
            "TW-STRIMZI-16",
            "The file of log levels is wrong",
            "warning",
            lines=(
                "`FILE: the levels of loggers stay as they are: ...`",
                "`FILE: NAME: LEVEL is no level; expected any of ...`",
            ),
            meaning="The mounted file with the levels of loggers is unreadable, or has an unknown level.",
            impact=UNAFFECTED,
            mend=(
                "Correct the logging of the resource, for example `rootLogger.level: INFO`. The worker reads the file "
                "again by itself."
            ),
        ),
    ),
)
