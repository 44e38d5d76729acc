"""Keys of the whole process: driver, metrics and REST API (Kafka classes MirrorMakerConfig, RestServerConfig).

Keys of the REST API in the file of a dedicated MirrorMaker 2 are for requests between its processes; twinlog's
processes ignore them.
"""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import (
    AT_ONCE,
    RESTART,
    Effect,
    Importance,
    InWorkerFile,
    Key,
    KeyType,
    Level,
    Shown,
    ValueForm,
    setting,
)
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.worker import DriverListener, MetricsSettings, RestSettings, ServedConsole, WorkerSettings

BOOL = KeyType.BOOL
INT, LIST, STRING, ENUM = KeyType.INT, KeyType.LIST, KeyType.STRING, KeyType.ENUM
JVM = Effect.JVM

_process = partial(Key, level=Level.PROCESS)
_setting = partial(setting, level=Level.PROCESS)
_rest = partial(Key, level=Level.PROCESS, effect=Effect.JVM, in_worker_file=InWorkerFile())
_rest_setting = partial(setting, RestSettings, level=Level.PROCESS, effect=Effect.JVM, in_worker_file=InWorkerFile())

REST_KEYS = (
    _rest_setting("listeners", LIST, "Addresses of the REST API.", form=ValueForm.LISTENERS),
    _rest("admin.listeners", LIST, None, "Addresses of the REST API for log levels.", form=ValueForm.LISTENERS),
    _rest("rest.advertised.host.name", STRING, None, "Host name by which other workers call this worker."),
    _rest(
        "rest.advertised.port", INT, None, "Port at which other workers call this worker.", minimum=0, maximum=65_535
    ),
    _rest(
        "rest.advertised.listener",
        ENUM,
        None,
        "Listener that other workers call.",
        choices=("http", "https"),
        any_case=True,
    ),
    _rest_setting(
        "rest.extension.classes", LIST, "Classes that extend the REST API, for example for basic authentication."
    ),
    _rest_setting("access.control.allow.origin", STRING, "Origin that may call the REST API from a browser."),
    _rest_setting("access.control.allow.methods", STRING, "Methods that a browser may call."),
    _rest_setting("response.http.headers.config", STRING, "Headers of every REST answer.", form=ValueForm.HEADERS),
    _rest("listeners.https.*", STRING, None, "TLS settings of `listeners`."),
    _rest("admin.listeners.https.*", STRING, None, "TLS settings of `admin.listeners`."),
)


LISTENERS = "twinlog.metrics.listeners"
HTTPS = f"{LISTENERS}.https."

METRICS_KEYS = (
    _setting(
        MetricsSettings,
        LISTENERS,
        KeyType.LIST,
        "Addresses of `/metrics` and `/metrics.json`, open to everyone, for example `http://127.0.0.1:9404`; off "
        "if empty. A worker also serves both pages on its `listeners`.",
        form=ValueForm.LISTENERS,
        update=RESTART,
    ),
    _process(
        f"{HTTPS}*",
        KeyType.STRING,
        None,
        "TLS settings (`ssl.*`) of https addresses in `twinlog.metrics.listeners`.",
        update=RESTART,
    ),
    _setting(
        MetricsSettings,
        "twinlog.metrics.partitions.enabled",
        KeyType.BOOL,
        "Adds metrics of each partition and each group to the metrics of flows, topics and tasks.",
        update=RESTART,
    ),
    _setting(
        MetricsSettings,
        "twinlog.metrics.names",
        KeyType.ENUM,
        "Names of the metrics: `exporter` for Strimzi's examples of the JMX exporter, `reporter` for Strimzi's "
        "Metrics Reporter.",
        choices=("exporter", "reporter"),
        update=RESTART,
    ),
)

CONSOLE_KEYS = (
    _setting(
        ServedConsole,
        "twinlog.console.enabled",
        BOOL,
        "Serves the [console](console.md) at `/ui` of `twinlog.metrics.listeners` and of a worker's `listeners`. "
        "Without users it serves only browsers of the same machine.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        ServedConsole,
        "twinlog.console.actions.enabled",
        BOOL,
        "Lets the console pause, resume and restart; with `false` it only shows.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        ServedConsole,
        "twinlog.console.records.enabled",
        BOOL,
        "Lets the console show keys, values and headers of records.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
)

OAUTH = "twinlog.console.oauth."
OAUTH_HTTPS = f"{OAUTH}https."

OAUTH_KEYS = (
    _setting(
        OpenIdSettings,
        f"{OAUTH}issuer",
        STRING,
        "Issuer of OpenID Connect at which users of the console [log in](console.md#log-in-by-openid-connect), for "
        "example `https://id.example/realms/ops`.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        OpenIdSettings,
        f"{OAUTH}client.id",
        STRING,
        "Id of the console at the issuer.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _process(
        f"{OAUTH}client.secret",
        KeyType.PASSWORD,
        None,
        "Secret of the console at the issuer; a public client needs none.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        OpenIdSettings,
        f"{OAUTH}redirect.uri",
        STRING,
        "Address to which the issuer sends browsers back, as registered there: `https://HOST:PORT/ui/login/callback`.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        OpenIdSettings,
        f"{OAUTH}scope",
        STRING,
        "Scopes of the request, separated by blanks, `openid` among them.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        OpenIdSettings,
        f"{OAUTH}user.claim",
        STRING,
        "Claim of the ID token that names the user on pages and in the audit log.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        OpenIdSettings,
        f"{OAUTH}allowed.subjects",
        LIST,
        "Users that the console admits, by the claim `sub`; `*` admits each user of the issuer.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        OpenIdSettings,
        f"{OAUTH}groups.claim",
        STRING,
        "Claim of the ID token with the groups of the user.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        OpenIdSettings,
        f"{OAUTH}allowed.groups",
        LIST,
        "Groups whose users the console admits.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _process(
        f"{OAUTH_HTTPS}*",
        STRING,
        None,
        "TLS settings (`ssl.*`) of connections to the issuer.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
)
"""The login to the console by an issuer of OpenID Connect."""


DRIVER_KEYS = (
    _setting(
        DriverListener,
        "twinlog.driver.host",
        STRING,
        "Name or address at which copiers on a Spark cluster reach this process; if empty, `spark.driver.host`. "
        "Only tasks in other processes use the keys `twinlog.driver.*`.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        DriverListener,
        "twinlog.driver.bind.address",
        STRING,
        "Address of this machine on which the process waits for copiers, `0.0.0.0` for all; if empty, "
        "`spark.driver.bindAddress`, else `spark.driver.host`.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    _setting(
        DriverListener,
        "twinlog.driver.port",
        INT,
        "Port of both addresses, for a firewall or a network policy; 0 takes any free port.",
        minimum=0,
        maximum=65_535,
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
)
"""The address at which a driver waits for its copiers."""

PROCESS_KEYS = (
    _process("clusters", LIST, None, "Aliases of all clusters.", form=ValueForm.ALIASES, update=AT_ONCE),
    _process(
        "config.providers",
        LIST,
        "",
        "Names of the providers of `${name:path:key}` references.",
        update=AT_ONCE,
        shown=Shown(Importance.LOW, since=(4, 2)),
    ),
    _process(
        "config.providers.*",
        STRING,
        None,
        "Per provider `.class` (FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider) and "
        "`.param.*`; see [other classes](security.md#secrets).",
        update=AT_ONCE,
    ),
    _process(
        "twinlog.unknown.keys",
        ENUM,
        "fail",
        "An unknown key stops the start (`fail`), or is only reported (`warn`).",
        choices=("fail", "warn"),
        update=AT_ONCE,
        in_worker_file=InWorkerFile(default="warn"),
    ),
    _setting(
        WorkerSettings,
        "twinlog.bridge",
        BOOL,
        "Copies in a process beside the driver while Spark has no task for a flow: at the start, during a "
        "restart of Spark's JVM, and while Spark waits for executors.",
        update=RESTART,
        in_worker_file=InWorkerFile(),
    ),
    *DRIVER_KEYS,
    _process(
        "twinlog.shared.topics",
        ENUM,
        "refuse",
        "For flows from different sources that keep topic names and share topics on a target: `refuse` stops the "
        "start; `first` copies a shared topic from a single source, by the flow that copied it before, else by "
        "the first flow of the file.",
        choices=("refuse", "first"),
        update=RESTART,
    ),
    _process(
        "dedicated.mode.enable.internal.rest",
        BOOL,
        "false",
        "Processes of a flow meet on its target, through the brokers alone.",
        effect=JVM,
    ),
    *METRICS_KEYS,
    *CONSOLE_KEYS,
    *OAUTH_KEYS,
    *REST_KEYS,
)
