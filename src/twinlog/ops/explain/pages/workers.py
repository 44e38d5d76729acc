"""Messages about Connect workers and Strimzi."""

from __future__ import annotations

from twinlog.ops.explain.message import NOTHING_CHANGED, NOTHING_TO_DO, UNAFFECTED, Area, Message, Page
from twinlog.ops.explain.pages.strimzi import STRIMZI

_REST = Area(
    name="REST",
    title="The REST API of a worker",
    about="A Connect worker answers requests at `listeners`.",
    look=("curl -s http://HOST:8083/health",),
    messages=(
        Message(
            "TW-REST-01",
            "An address is taken",
            "error",
            lines=("`cannot listen at http://HOST:8083: ...; ...`",),
            meaning="The REST API, the metrics or the console cannot begin: another process has that port, or no "
            "interface of this machine has that address.",
            impact=NOTHING_CHANGED,
            look=("ss -ltnp", "curl -s http://HOST:8083/"),
            mend="End the other process, or write another address in the key or the option of the line.",
        ),
        Message(
            "TW-REST-02",
            "The REST API is open to everybody",
            "warning",
            lines=("`FILE has no users: everybody may use the REST API without a login`",),
            meaning="Basic authentication is on, and its file of users is empty.",
            impact="Everybody may change connectors.",
            mend="Add a line `user: password`, and restart the worker.",
        ),
        Message(
            "TW-REST-03",
            "A user has an empty password",
            "warning",
            lines=("`FILE: user U has an empty password, ...`",),
            meaning="A line of that file lacks `: password`.",
            impact="The name is enough to log in as this user.",
            mend="Add the password, and restart the worker.",
        ),
        Message(
            "TW-REST-04",
            "A hashed password is malformed",
            "warning",
            lines=("`FILE: the hash of user U is malformed, ...`",),
            meaning="A bcrypt or scrypt hash was cut off or mistyped, and counts as a plain password.",
            impact="The user's password is refused; the text of the hash is accepted.",
            mend="Write the whole hash, and restart the worker.",
        ),
        Message(
            "TW-REST-05",
            "Passing a request on failed",
            "warning",
            lines=("`cannot pass METHOD PATH on to HOST: ...`",),
            meaning="The request is for another worker of the group, and the worker's advertised name is unreachable.",
            impact="The request was discarded; connectors run as before.",
            mend="Correct `rest.advertised.host.name` and `.port` of that worker, its certificate, or the network.",
        ),
        Message(
            "TW-REST-06",
            "The connectors of the command line were refused",
            "error",
            lines=("`stopping: ...`",),
            meaning="A standalone worker failed to create a connector of its command line.",
            impact="The worker ends before it copies a record.",
            mend="Correct the connector's file in the line, and restart the worker.",
        ),
        Message(
            "TW-REST-07",
            "The worker is too slow to answer about its health",
            "error",
            lines=("`Worker did not answer in time ...`",),
            meaning="`/health` had no answer within the limit: the worker is overloaded or hangs.",
            impact="Running connectors may continue; requests may fail.",
            mend="Look at the processor time and the log of the worker, and restart the worker if it stays silent.",
        ),
        Message(
            "TW-REST-08",
            "A worker refuses a request",
            "error",
            lines=("`twinlog: Connector NAME not found`",),
            meaning="The line has the answer of the worker to `twinlog connectors` or to a request for topics.",
            impact="The request had no effect. All other connectors are unaffected.",
            mend="Follow the line; `twinlog connectors list` has the names.",
            look=("twinlog connectors status",),
        ),
        Message(
            "TW-REST-09",
            "The group or a topic of a worker is not found",
            "warning",
            lines=(
                "`cluster west: no topic with 'offset' in its name has positions of connector NAME; ...`",
                "`the worker at URL has names that its target lacks or hides from this login: ...`",
            ),
            meaning=(
                "A command with `--url` asks a worker for its connectors. The names of the worker's group and topics "
                "are only in the worker's file, so the command looks for them on the target: a topic by the keys of "
                "its records, the group by the addresses of its members."
            ),
            impact="The command ends, or its result lacks the states of connectors. Records and groups are unaffected.",
            mend=(
                "Give the worker's file before `--url`. Or grant DESCRIBE on the group, and READ on the worker's "
                "topics, to the login of the connectors."
            ),
            look=("twinlog connectors list --url http://HOST:8083",),
        ),
        Message(
            "TW-REST-10",
            "A login to the console failed at the issuer",
            "warning",
            lines=("`a login at the issuer URL failed: ...`",),
            meaning=(
                "The console asks the issuer of `twinlog.console.oauth.issuer` for its metadata, its keys and an ID "
                "token. The line has the address that was silent or gave a wrong answer, once until the next good "
                "login."
            ),
            impact="Users fail to log in at the issuer. Sessions that have begun continue, and so do flows.",
            mend=(
                "Follow the line: correct the key that it names, the registration of the console at the issuer, or the "
                "network. Users of a file of users may log in meanwhile."
            ),
            look=("curl -s ISSUER/.well-known/openid-configuration",),
        ),
    ),
)

_WORKER = Area(
    name="WORKER",
    title="Connect workers",
    about="Workers with the same `group.id` share connectors and keep them in three topics.",
    look=(
        "curl -s http://HOST:8083/health",
        "twinlog connectors status",
    ),
    messages=(
        Message(
            "TW-WORKER-01",
            "Workers of a group have different topics",
            "warning",
            lines=(
                (
                    "`cannot take part in group G, trying again: the worker at URL, which leads it, has its state in "
                    "TOPICS ...`"
                ),
            ),
            meaning="Two sets of workers have the same `group.id`.",
            impact="This worker waits; the other workers continue.",
            mend="Give all workers the same three topics, or choose another `group.id`.",
        ),
        Message(
            "TW-WORKER-02",
            "The worker is outside of its group",
            "warning",
            lines=("`cannot take part in group G, trying again: ...`",),
            meaning=(
                "The coordinator of the group is silent, or the group has Kafka's own workers or consumers. `/health` "
                "reports the error after a session."
            ),
            impact="Running connectors continue for the length of a session; changes of connectors wait.",
            mend="Check that cluster. Or stop these members, or choose another `group.id`.",
        ),
        Message(
            "TW-WORKER-03",
            "The topics of the worker are unreadable",
            "warning",
            lines=("`the worker's topics cannot be read yet, trying again: ...`",),
            meaning="The worker starts, and its own cluster is silent or refuses the worker.",
            impact="This worker waits; other workers continue.",
            mend="Check that cluster, `bootstrap.servers` and the login. twinlog continues by itself.",
        ),
        Message(
            "TW-WORKER-04",
            "The cluster refuses a topic of the worker",
            "error",
            lines=("`topic T (KEY) could not be created: ...; it is to have N replicas, ...`",),
            meaning="The worker's topics need more replicas than its cluster has brokers.",
            impact="The worker runs no connector, and ends with exit code 1 after `default.api.timeout.ms` (60 s).",
            mend="Correct the key in the line, or start the other brokers.",
        ),
        Message(
            "TW-WORKER-05",
            "The topics of the worker are silent",
            "warning",
            lines=("`the worker's topics do not answer, trying again: ...`",),
            meaning="The topics stopped answering during the run.",
            impact="Running connectors continue until another worker may start them; changes of connectors wait.",
            mend="Check that cluster. After a success, `the worker's topics answer again` follows.",
        ),
        Message(
            "TW-WORKER-06",
            "The status topic was deleted",
            "warning",
            lines=("`... any more (status.storage.topic): it is recreated, ...`",),
            meaning="Each worker writes the states of its connectors and tasks again.",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
        ),
        Message(
            "TW-WORKER-07",
            "The config topic was deleted",
            "warning",
            lines=("`... any more (config.storage.topic). Running connectors continue; ...`",),
            meaning="The leader knows all connectors, their states and tasks, and writes these again.",
            impact="Running connectors continue.",
            mend="Keep the leader running until the topic is whole again.",
        ),
        Message(
            "TW-WORKER-08",
            "The config topic was written again",
            "error",
            lines=(
                ("`the config topic (config.storage.topic) was deleted, or recreated without its connectors: ...`"),
            ),
            meaning="The config topic was deleted; the topic is whole again.",
            impact="Running connectors continue.",
            mend="Find the cause of the deletion.",
        ),
        Message(
            "TW-WORKER-09",
            "Connectors are missing in the config topic",
            "error",
            lines=(
                (
                    "`nobody runs C: the leader of the group gives this worker connectors that are missing in its "
                    "config topic, ...`"
                ),
            ),
            meaning="The config topic was deleted, and this worker has recreated the topic.",
            impact="The named connectors have stopped.",
            mend="Follow the message.",
        ),
        Message(
            "TW-WORKER-10",
            "An earlier leader may still write",
            "warning",
            lines=("`an earlier leader of the group may still write to the config topic: ...`",),
            meaning=(
                "With `exactly.once.source.support` a leader of Kafka's own worker may wake after a pause; this worker "
                "lacks the right to fence that leader."
            ),
            impact=UNAFFECTED,
            mend="Grant the right in the line.",
        ),
        Message(
            "TW-WORKER-11",
            "Two connectors contradict each other",
            "warning",
            lines=(
                "`connector C: CONNECTOR looks for offset syncs in ...`",
                "`connector C: ...`",
            ),
            meaning="Connectors of the same pair of clusters do not fit together; all connectors run.",
            impact="Depends on the line: groups may skip or repeat records after a failover.",
            mend="Follow the message; the connector's status has the same text.",
        ),
        Message(
            "TW-WORKER-12",
            "Two connectors copy the same topics",
            "warning",
            lines=("`connector A: A and B are both to copy TOPICS into the same remote topics. ...`",),
            meaning=(
                "`topics` of two connectors overlap. The error `not mirrored` names the connector that leaves the "
                "topics out."
            ),
            impact=(
                "The topics are copied once. After a change or removal of the copying connector, the second connector "
                "copies them again from the beginning."
            ),
            mend="Change the key in the line, in the connector that leaves the topics out.",
        ),
        Message(
            "TW-WORKER-13",
            "All connectors of a worker have lost Spark",
            "error",
            lines=("`Spark ends, and with it all that copies here: ...`",),
            meaning="Spark could not start on a worker, or died too often.",
            impact="The source connectors of this worker have failed with this trace; positions are stored.",
            mend="Remove the reason, and restart the failed connectors and tasks: the restart also starts Spark.",
        ),
        Message(
            "TW-WORKER-14",
            "A worker joined its group",
            "info",
            lines=(("`joined group G at generation N, leader URL; assigned connectors: ...; new: ...; revoked: ...`"),),
            meaning="A rebalance changed the leader, or the connectors of this worker.",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-WORKER-15",
            "The positions of a connector are unreadable yet",
            "warning",
            lines=("`connector C: its positions cannot be read yet, trying again: ...`",),
            meaning="The target of a standalone worker's connector is silent.",
            impact="The connector waits until its positions are read.",
            mend="Follow the reason at the end of the line.",
        ),
        Message(
            "TW-WORKER-16",
            "A record of a worker's topic is passed over",
            "error",
            lines=("`topic T: the record KEY is passed over: ...`",),
            meaning=(
                "The config, offset or status topic has a record of another form, by another program or a later Kafka "
                "Connect."
            ),
            impact="The connector, position or state of that record is unknown to this worker.",
            mend=(
                "Compare the record with the reason in the line. If the connector is missing, run `twinlog connectors "
                "create`."
            ),
            look=(
                "twinlog connectors list",
                (
                    "kafka-console-consumer.sh --bootstrap-server HOST:PORT --topic connect-configs --from-beginning "
                    "--property print.key=true"
                ),
            ),
        ),
        Message(
            "TW-WORKER-17",
            "Positions come from another store",
            "info",
            lines=("`connector C: ... positions are those of FILE`",),
            meaning="Kafka's worker, or another program, wrote the offset file last.",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-WORKER-18",
            "Writing the offset file fails",
            "warning",
            lines=("`FILE cannot be written: ...; positions are on the targets all the same, ...`",),
            meaning="The disk is full, or the file is itself a mount.",
            impact="Records are copied, and positions are stored on the targets.",
            mend="Free disk space; mount the folder in place of the file.",
            look=(
                "df -h",
                "ls -l connect.offsets",
            ),
        ),
        Message(
            "TW-WORKER-19",
            "Two workers have the same offset file",
            "error",
            lines=("`... another worker has this file`",),
            meaning="",
            impact=NOTHING_CHANGED,
            mend="Give each worker its own file, or run all connectors in the same worker.",
        ),
        Message(
            "TW-WORKER-20",
            "The worker has failed to start",
            "error",
            lines=("`the worker failed to start: ...`",),
            meaning="The operating system refused a port, a thread or a file.",
            impact="The worker ends.",
            mend="Follow the reason, for example write another port in `listeners`, and restart the worker.",
        ),
        Message(
            "TW-WORKER-21",
            "A topic of the worker has several partitions",
            "error",
            lines=("`topic T (KEY) has ... and must have a single partition, ...`",),
            meaning="Another program or person created the config topic with several partitions.",
            impact=NOTHING_CHANGED,
            mend=(
                "Name another topic in the key of the line, for example in `config.storage.topic`, or recreate the "
                "topic."
            ),
        ),
        Message(
            "TW-WORKER-22",
            "Positions need a valid configuration",
            "error",
            lines=("`connector NAME: its positions on the target are reachable only with a valid configuration; ...`",),
            meaning="A source connector keeps positions on its target, and its configuration is wrong.",
            impact="The positions stay as they are.",
            mend="Correct the configuration of the connector, and repeat the request.",
        ),
        Message(
            "TW-WORKER-23",
            "Connectors are paused or stopped",
            "error",
            lines=("`not running: CONNECTORS; ...`",),
            meaning="`twinlog connectors status --wait` waits for RUNNING, and the connectors are paused or stopped.",
            impact="The connectors copy no record until they are resumed.",
            mend="Run `twinlog connectors resume NAME` if the connectors are to run.",
            look=("twinlog connectors status",),
        ),
    ),
)

PAGE = Page("workers", "Connect workers and Strimzi", (_REST, _WORKER, STRIMZI))
