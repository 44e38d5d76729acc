"""Keys of the file itself: they count for the whole process (Kafka classes MirrorMakerConfig, RestServerConfig)."""

from __future__ import annotations

from functools import partial

from twinlog.config.key import Effect, Form, Key, KeyType, Level

BOOL, INT = KeyType.BOOL, KeyType.INT
LIST, STRING, ENUM = KeyType.LIST, KeyType.STRING, KeyType.ENUM
LATER, JVM = Effect.LATER, Effect.JVM

_process = partial(Key, level=Level.PROCESS)

PROCESS_KEYS = (
    _process("clusters", LIST, None, "The aliases of all clusters.", form=Form.ALIASES),
    _process("config.providers", LIST, "", "Names of the sources of ${name:path:key} references in values."),
    _process(
        "config.providers.*",
        STRING,
        None,
        "Per provider: `.class` (FileConfigProvider, EnvVarConfigProvider or DirectoryConfigProvider) and `.param.*`.",
    ),
    _process(
        "twinlog.unknown.keys",
        ENUM,
        "fail",
        "Whether an unknown key stops the start or is only reported.",
        choices=("fail", "warn"),
    ),
    _process(
        "twinlog.warm.up.enabled",
        BOOL,
        "true",
        "Prepare later starts of Spark in the background, as `twinlog warm-up` does, where that was never done.",
    ),
    _process(
        "dedicated.mode.enable.internal.rest",
        BOOL,
        "false",
        "Processes that share a flow meet on its target and need no listener.",
        effect=JVM,
    ),
    _process("listeners", LIST, "http://:8083", "Addresses the REST listener binds to.", effect=LATER),
    _process("admin.listeners", LIST, None, "Addresses of the REST listener for log levels.", effect=LATER),
    _process("rest.advertised.host.name", STRING, None, "Host name other nodes call this one by.", effect=LATER),
    _process("rest.advertised.port", INT, None, "Port other nodes call this one at.", effect=LATER),
    _process("rest.advertised.listener", STRING, None, "Which listener other nodes call, http or https.", effect=LATER),
    _process(
        "rest.extension.classes",
        LIST,
        "",
        "Classes that extend the REST listener, such as basic authentication.",
        effect=LATER,
    ),
    _process(
        "access.control.allow.origin",
        STRING,
        "",
        "Origin allowed to call the REST listener from a browser.",
        effect=LATER,
    ),
    _process("access.control.allow.methods", STRING, "", "Methods allowed from a browser.", effect=LATER),
    _process("response.http.headers.config", STRING, "", "Headers added to every REST answer.", effect=LATER),
    _process("listeners.https.*", STRING, None, "TLS settings of the REST listener.", effect=LATER),
    _process("admin.listeners.https.*", STRING, None, "TLS settings of the listener for log levels.", effect=LATER),
)
