"""Messages about connections, logins and permissions."""

from __future__ import annotations

from twinlog.ops.explain.message import (
    COPIES_NOTHING,
    NOTHING_CHANGED,
    NOTHING_TO_DO,
    ONE_PARTITION_WAITS,
    UNAFFECTED,
    WAITS,
    Area,
    Message,
    Page,
)

_NET = Area(
    name="NET",
    title="Connections to brokers",
    about="The line names the cluster, the address and the reason of each failed connection.",
    look=(
        "twinlog status mm2.properties",
        "kafka-broker-api-versions.sh --bootstrap-server HOST:PORT --command-config client.properties",
    ),
    escalate="Give the line with the address to the team that operates the brokers or the network.",
    messages=(
        Message(
            "TW-NET-01",
            "All brokers are unreachable",
            "warning",
            lines=("`no broker can be reached: HOST:PORT: connection refused`",),
            meaning="Nothing listens at that address.",
            impact=WAITS,
            mend="Check that the broker runs, and its port. twinlog continues when the broker answers.",
        ),
        Message(
            "TW-NET-02",
            "A host is unknown or silent",
            "warning",
            lines=(
                "`... the host name is not known`",
                "`... no answer in time`",
            ),
            meaning="The host name is wrong, a host is down, or a firewall blocks the connection.",
            impact=WAITS,
            mend="Check `bootstrap.servers` and the network.",
            look=(
                "getent hosts HOST",
                "nc -vz HOST PORT",
            ),
        ),
        Message(
            "TW-NET-03",
            "The port has another security protocol",
            "warning",
            lines=(
                "`... the port uses TLS`",
                "`... does not use TLS`",
                "`... does not want a login`",
                "`... closes the connection`",
            ),
            meaning="",
            impact=WAITS,
            mend="Correct `security.protocol` of that cluster, or choose another port.",
        ),
        Message(
            "TW-NET-04",
            "The port is a controller's",
            "error",
            lines=("`... is it the port of a controller?`",),
            meaning="A KRaft controller answers no client.",
            impact=WAITS,
            mend="Write the port of a broker.",
        ),
        Message(
            "TW-NET-05",
            "The signer of a certificate is unknown",
            "error",
            lines=("`... its certificate is not trusted (...)`",),
            meaning="The trust store lacks the authority that signed the certificate.",
            impact=WAITS,
            mend="Correct `ssl.truststore.location` of that cluster.",
            look=("openssl s_client -connect HOST:PORT -showcerts",),
        ),
        Message(
            "TW-NET-06",
            "A certificate is for another host",
            "error",
            lines=("`... its certificate is not for HOST`",),
            meaning="The broker's certificate lacks the host name of the connection.",
            impact=WAITS,
            mend=(
                "Correct `bootstrap.servers`, the broker's `advertised.listeners`, or its certificate. See [encrypted "
                "clusters](security.md#encrypted-clusters)."
            ),
            look=("openssl s_client -connect HOST:PORT -showcerts",),
        ),
        Message(
            "TW-NET-07",
            "The broker refuses the client's certificate",
            "error",
            lines=(
                "`... it wants a certificate of its clients`",
                "`... does not accept this client's certificate`",
            ),
            meaning="The broker has `ssl.client.auth = required`.",
            impact=WAITS,
            mend="Correct `ssl.keystore.location` of that cluster, or the broker's trust store.",
            look=("openssl s_client -connect HOST:PORT -cert client.pem -key client.key",),
        ),
        Message(
            "TW-NET-08",
            "A certificate is too weak",
            "error",
            lines=(
                ("`... its keys or signatures are too weak for OpenSSL here (...), though Java accepts them; ...`"),
            ),
            meaning="A certificate of the broker or of an authority has a short key, or a signature with SHA-1.",
            impact=WAITS,
            mend=(
                "Renew the broker's certificate; until then set [`ssl.cipher.suites`](security.md#weak-certificates) "
                "of that cluster."
            ),
            look=("openssl s_client -connect HOST:PORT -showcerts",),
        ),
        Message(
            "TW-NET-09",
            "The versions of TLS differ",
            "error",
            lines=("`... no version of TLS or no cipher in common`",),
            meaning="The two sides allow different versions of TLS or different ciphers.",
            impact=WAITS,
            mend="Correct `ssl.enabled.protocols`, `ssl.cipher.suites`.",
            look=("openssl s_client -connect HOST:PORT",),
        ),
        Message(
            "TW-NET-10",
            "A certificate is outside of its validity",
            "error",
            lines=(
                "`... its certificate has expired, or the clock of this host is wrong`",
                "`... its certificate is not valid yet, or the clock of this host is wrong`",
            ),
            meaning="",
            impact=WAITS,
            mend="Renew the certificate of the broker, or correct the clock of this host.",
            look=(
                "date",
                "openssl s_client -connect HOST:PORT | openssl x509 -noout -dates",
            ),
        ),
        Message(
            "TW-NET-11",
            "A step against a cluster fails and is tried again",
            "warning",
            lines=("`...; it is tried again for N s in all`",),
            meaning="A broker is silent, or answered with an error that may pass.",
            impact="The command or the step waits.",
            mend="Wait until the time in the line is over. If the step fails then, follow the reason in the line.",
        ),
        Message(
            "TW-NET-12",
            "A partition is silent",
            "warning",
            lines=(
                ("`PARTITION returns nothing from offset N on, and is fetched again for up to N s: ...`"),
                "`PARTITION is read again, from offset N on`",
            ),
            meaning=(
                "A command or query reads a partition without a leader, or the broker throttles the client. A second "
                "line reports the end of the wait."
            ),
            impact="The command waits at this offset, and then reads every record.",
            mend=(
                "Check the leader of the partition, and quotas of the login (`consumer_byte_rate`). twinlog continues "
                "by itself."
            ),
            look=("kafka-topics.sh --bootstrap-server HOST:PORT --describe --unavailable-partitions",),
        ),
        Message(
            "TW-NET-13",
            "The connection to a cluster fails at the start",
            "warning",
            lines=("`FLOW: cannot connect yet, trying again: ...`",),
            meaning="A cluster of the flow is unreachable, or refuses the login.",
            impact=WAITS,
            mend=(
                "Correct the reason at the end of the line, for example `east.bootstrap.servers` or the login. twinlog "
                "tries again until the cluster answers."
            ),
        ),
        Message(
            "TW-NET-14",
            "A step of the flow waits for a cluster",
            "warning",
            lines=("`FLOW: cannot ... yet, trying again: ...`",),
            meaning="The flow starts or takes over, and a cluster fails to answer this step.",
            impact=WAITS,
            mend="Follow the reason at the end of the line. twinlog tries again by itself.",
        ),
    ),
)

_AUTH = Area(
    name="AUTH",
    title="Logins",
    about="A cluster or a token server refuses the login of twinlog.",
    look=(
        "twinlog status mm2.properties",
        (
            "kafka-configs.sh --bootstrap-server HOST:PORT --command-config client.properties "
            "--describe --entity-type users --entity-name USER"
        ),
    ),
    escalate="Give the line to the team that operates the logins of the cluster.",
    messages=(
        Message(
            "TW-AUTH-01",
            "The login was refused",
            "error",
            lines=("`the login was refused for USER`",),
            meaning=(
                "User, password or mechanism is wrong. For a wrong mechanism the line lists the broker's mechanisms."
            ),
            impact=WAITS,
            mend="Correct `sasl.jaas.config` and `sasl.mechanism` of that cluster.",
        ),
        Message(
            "TW-AUTH-02",
            "The token server refuses the client",
            "error",
            lines=("`... the token server URL answers 401 ...`",),
            meaning="The token server refuses the client, or its secret.",
            impact=WAITS,
            mend="Correct `sasl.oauthbearer.client.credentials.*`.",
            look=("twinlog check mm2.properties",),
        ),
    ),
)

_RIGHT = Area(
    name="RIGHT",
    title="Permissions",
    about="The line names the principal, the operation and the resource of the missing permission.",
    look=(
        "kafka-acls.sh --bootstrap-server HOST:PORT --command-config client.properties --list --principal User:USER",
        "twinlog acls mm2.properties --missing",
    ),
    escalate="Give the output to the team that grants permissions on the cluster.",
    messages=(
        Message(
            "TW-RIGHT-01",
            "A partition is held for a missing right",
            "error",
            lines=("`T-0 is held at source offset N: ...`",),
            meaning="The login lacks READ, WRITE or DESCRIBE on the topic.",
            impact=ONE_PARTITION_WAITS,
            mend=(
                "`twinlog acls FILE --missing` prints the commands that grant the right or remove a denial. Copying "
                "continues within a minute; see [held partitions](held.md#reasons)."
            ),
        ),
        Message(
            "TW-RIGHT-02",
            "A permission is missing",
            "error",
            lines=("`USER lacks OPERATION on ...`",),
            meaning="",
            impact="The part of the flow that needs the permission waits; the line names its purpose.",
            mend=(
                "`twinlog acls FILE --missing` prints the commands that grant it or remove a denial, with `--for "
                "COMMAND` for a command; see [permissions](security.md#permissions)."
            ),
        ),
    ),
)

_CLUSTER = Area(
    name="CLUSTER",
    title="Source and target",
    about="Each flow checks before its start that source and target are two clusters.",
    look=(
        "kafka-cluster.sh cluster-id --bootstrap-server HOST:PORT",
        "twinlog plan mm2.properties",
    ),
    messages=(
        Message(
            "TW-CLUSTER-01",
            "Source and target are the same cluster",
            "error",
            lines=("`... are the same cluster ..., which this flow cannot mirror to itself: ...`",),
            meaning="The flow would copy its own copies for ever.",
            impact=COPIES_NOTHING,
            mend=(
                "Follow the line, see [within a single cluster](running.md#within-a-single-cluster). Or correct the "
                "`bootstrap.servers` of source or target."
            ),
        ),
        Message(
            "TW-CLUSTER-02",
            "Copies are made within a single cluster",
            "warning",
            lines=("`... are the same cluster ...: copies are made beside their topics, ...`",),
            meaning="Both aliases name the same cluster, on which `orders` becomes `east.orders`.",
            impact="Each record is on the cluster twice.",
            mend="If this is unintended, correct the `bootstrap.servers` of source or target.",
        ),
        Message(
            "TW-CLUSTER-03",
            "A switchover needs two clusters",
            "error",
            lines=("`... are the same cluster ..., and a switchover needs two clusters; ...`",),
            meaning="`twinlog switchover` ends with this line.",
            impact=NOTHING_CHANGED,
            mend="Move producers and consumers by hand, or correct the `bootstrap.servers` of source or target.",
        ),
        Message(
            "TW-CLUSTER-04",
            "Two clusters have the same id",
            "warning",
            lines=(
                ("`both clusters have the id ...; if both aliases mean the same cluster, it would mirror itself, ...`"),
            ),
            meaning=(
                "The clusters have different broker addresses: they were formatted with the same id, or both addresses "
                "lead to a single cluster."
            ),
            impact="The flow runs. If both aliases mean a single cluster, the flow copies its own copies.",
            mend=(
                "Compare the `bootstrap.servers` of both aliases. Format two real clusters with different ids at the "
                "next opportunity."
            ),
        ),
        Message(
            "TW-CLUSTER-05",
            "A client has the address of another cluster",
            "error",
            lines=(
                "`records would be written to ...`",
                "`records would be read from ...`",
                "`where topics and positions are looked for`",
            ),
            meaning="The settings of source or target name two clusters.",
            impact=NOTHING_CHANGED,
            mend=(
                "In a connector, correct `producer.override.bootstrap.servers` and `target.cluster.bootstrap.servers`, "
                "or `source.consumer.bootstrap.servers` and `source.cluster.bootstrap.servers`. In a flow, correct "
                "`target.producer.` and `source.consumer.`."
            ),
        ),
    ),
)

_BROKER = Area(
    name="BROKER",
    title="Old brokers",
    about="A cluster has brokers of an old release of Kafka, or of another product.",
    look=("kafka-broker-api-versions.sh --bootstrap-server HOST:PORT",),
    messages=(
        Message(
            "TW-BROKER-01",
            "The brokers are too old",
            "error",
            lines=("`the brokers are too old: they know ... up to version N`",),
            meaning=(
                "The brokers are older than Kafka 2.1, or another product (Redpanda, Event Hubs) lacks later versions "
                "of these requests."
            ),
            impact=COPIES_NOTHING,
            mend="Upgrade that cluster. Until then MirrorMaker 2 of Kafka 3.9 can copy from it.",
        ),
        Message(
            "TW-BROKER-02",
            "The default replication factor is unknown",
            "warning",
            lines=("`brokers before Kafka 2.4 take no default: new topics get N replicas`",),
            meaning="The login may not read `default.replication.factor` of the brokers.",
            impact="New topics get the number of replicas in the line.",
            mend=(
                "If the number is wrong, grant DESCRIBE_CONFIGS on the cluster, or write numbers in "
                "`replication.factor` and the other `....replication.factor`."
            ),
        ),
        Message(
            "TW-BROKER-03",
            "The cluster changes whole configurations only",
            "info",
            lines=("`cluster B cannot change single settings, as no Kafka before 2.3 can`",),
            meaning="The cluster is an [old cluster](running.md#old-clusters).",
            impact=UNAFFECTED,
            mend=NOTHING_TO_DO,
            in_line=False,
        ),
        Message(
            "TW-BROKER-04",
            "A command needs newer brokers",
            "error",
            lines=("`its brokers are too old for requests of kind KIND`",),
            meaning="A command needs a later request than Kafka 2.1 has, for example DescribeClientQuotas (Kafka 2.6).",
            impact="The command ends; records are copied as before.",
            mend="See [the missing features of old clusters](running.md#old-clusters).",
        ),
    ),
)

PAGE = Page(
    "connections",
    "Connections, logins and permissions",
    (
        _NET,
        _AUTH,
        _RIGHT,
        _CLUSTER,
        _BROKER,
    ),
)
