"""Keys of the REST API of a worker (Kafka class RestServerConfig).

In the file of a dedicated MirrorMaker 2 they are for requests between its processes, of which twinlog makes none.
"""

from __future__ import annotations

from functools import partial

from twinlog.config.keys.key import Effect, Form, Key, KeyType, Level

INT, LIST, STRING, ENUM = KeyType.INT, KeyType.LIST, KeyType.STRING, KeyType.ENUM

_rest = partial(Key, level=Level.PROCESS, effect=Effect.JVM)

REST_KEYS = (
    _rest(
        "listeners",
        LIST,
        "http://:8083",
        "Addresses the REST listener binds to.",
        form=Form.LISTENERS,
    ),
    _rest(
        "admin.listeners",
        LIST,
        None,
        "Addresses of the REST listener for log levels.",
        form=Form.LISTENERS,
    ),
    _rest("rest.advertised.host.name", STRING, None, "Host name other nodes call this one by."),
    _rest(
        "rest.advertised.port",
        INT,
        None,
        "Port other nodes call this one at.",
        minimum=0,
        maximum=65_535,
    ),
    _rest(
        "rest.advertised.listener",
        ENUM,
        None,
        "Which listener other nodes call.",
        choices=("http", "https"),
        any_case=True,
    ),
    _rest(
        "rest.extension.classes",
        LIST,
        "",
        "Classes that extend the REST listener, such as basic authentication.",
    ),
    _rest(
        "access.control.allow.origin",
        STRING,
        "",
        "Origin allowed to call the REST listener from a browser.",
    ),
    _rest("access.control.allow.methods", STRING, "", "Methods allowed from a browser."),
    _rest(
        "response.http.headers.config",
        STRING,
        "",
        "Headers added to every REST answer.",
        form=Form.HEADERS,
    ),
    _rest("listeners.https.*", STRING, None, "TLS settings of the REST listener."),
    _rest("admin.listeners.https.*", STRING, None, "TLS settings of the listener for log levels."),
)
