"""The calls, a file for each resource of the API."""

from __future__ import annotations

from conformance.resources.auth import BASIC_AUTH, NO_USERS
from conformance.resources.clients import KAFKA_UI, SCRIPTS, STRIMZI
from conformance.resources.command_line import COMMAND_LINE
from conformance.resources.connectors import CONFIG, CREATE, LIST
from conformance.resources.group import PAIR
from conformance.resources.http import HTTP
from conformance.resources.internal import INTERNAL
from conformance.resources.lifecycle import LIFECYCLE
from conformance.resources.listeners import CORS, CORS_ANY, HTTPS
from conformance.resources.loggers import LOGGERS, LOGGERS_APART, LOGGERS_OFF, LOGGERS_STANDALONE
from conformance.resources.names import NAMES, NAMES_REFUSED
from conformance.resources.offsets import CHECKPOINT_OFFSETS, HEARTBEAT_OFFSETS, SOURCE_OFFSETS
from conformance.resources.overrides import OVERRIDES_ALLOWLIST, OVERRIDES_NONE, OVERRIDES_PRINCIPAL
from conformance.resources.plugins import PLUGINS
from conformance.resources.providers import PROVIDERS
from conformance.resources.root import ROOT
from conformance.resources.standalone import ALONE
from conformance.resources.status import STATUS
from conformance.resources.topics import TOPICS, TOPICS_KEPT, TOPICS_OFF
from conformance.resources.validate import VALIDATE, VALIDATE_EXACT
from conformance.stage import Resource

RESOURCES: tuple[Resource, ...] = (
    COMMAND_LINE,
    ROOT,
    LIST,
    CREATE,
    CONFIG,
    STATUS,
    LIFECYCLE,
    SOURCE_OFFSETS,
    CHECKPOINT_OFFSETS,
    HEARTBEAT_OFFSETS,
    TOPICS,
    TOPICS_OFF,
    TOPICS_KEPT,
    PLUGINS,
    VALIDATE,
    VALIDATE_EXACT,
    LOGGERS,
    LOGGERS_OFF,
    LOGGERS_APART,
    HTTP,
    NAMES,
    NAMES_REFUSED,
    PROVIDERS,
    INTERNAL,
    KAFKA_UI,
    STRIMZI,
    SCRIPTS,
    BASIC_AUTH,
    NO_USERS,
    HTTPS,
    CORS,
    CORS_ANY,
    OVERRIDES_NONE,
    OVERRIDES_PRINCIPAL,
    OVERRIDES_ALLOWLIST,
    PAIR,
    ALONE,
    # Deletes the connectors of the files, too.
    LOGGERS_STANDALONE,
)
"""In the order in which they are played, within each arrangement."""
