"""Consoles of each kind, and all that a request may change: topics, switchovers, connectors, migrations, logins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.unit.connect.fake_herder import FakeHerder
from tests.unit.connect.serving import LOOPBACK
from tests.unit.ops.status.test_state import NOW
from tests.unit.ui.browser import FORM_COOKIE, SESSION_COOKIE, Browser
from tests.unit.ui.fakes import FLOW, FakeRest, FakeSources, fake_worker, topic
from tests.unit.ui.migration.test_migration import DRAFT, ScriptedStore
from tests.unit.ui.topics.test_records import ONE
from tests.unit.ui.topics.test_topic_actions import SKIP
from tests.unit.worker.test_driver_report import SETTINGS
from twinlog.clock import SYSTEM
from twinlog.connect.rest.api import RestApi
from twinlog.connect.rest.server import public_app
from twinlog.connect.rest.users import Credentials, Users
from twinlog.console.flow_files import FlowsOfFile
from twinlog.ops.connectors.rest import Access
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.worker import RestSettings, ServedConsole
from twinlog.ui.app import ConsoleApp, console_app
from twinlog.ui.both_sides import RecordPair
from twinlog.ui.migration.migrations import Migration
from twinlog.ui.mounted import MountedConsole
from twinlog.ui.site import ConsoleSettings, ConsoleSite
from twinlog.ui.visits import ConsoleEndpoint
from twinlog.worker.control.model import (
    CommandOutcome,
    CommandState,
    LogPlace,
    LogPlaceKind,
    PartitionSelector,
    TopicCommand,
    TopicVerb,
)

KINDS = ("open", "locked", "oauth", "read-only", "worker")
"""`twinlog console` without users, with users, with users beside an issuer that is out of reach, and with --read-only;
and the console of a worker with users."""

USER, PASSWORD = "alice", "wonder"
COMMAND = TopicCommand(
    "id-1", TopicVerb.SKIP_TO, (PartitionSelector("a[.]b", (0,)),), LogPlace(LogPlaceKind.TIME, (1 << 63) - 1), by="x"
)
"""A command that the flow has carried out."""

OUT_OF_REACH = OpenIdSettings(
    "http://127.0.0.1:1", "console", "hush", "http://localhost:8081/ui/login/callback", subjects=("*",)
)
"""An issuer at a port at which nothing listens."""

PASSWORD_FIELDS = ("password", "source_password", "target_password")
PEM = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----"

VALUES: Mapping[str, Sequence[str]] = {
    "flow": (FLOW,),
    "topic": ("a.b", "orders"),
    "group": ("shop", "till"),
    "verb": ("pause", "resume", "restart-from", "skip-to", "accept-gap", "release", "stop", "restart", "delete"),
    "partitions": ("0", "", "0,1"),
    "partition": ("0", "1"),
    "place": ("latest", "earliest", "offset", "time"),
    "value": ("4", "2026-11-20T08:00:00Z", "1700000000000"),
    "typed": (str(SETTINGS.target), "a.b", "copy"),
    "search": ("", "o"),
    "sort": ("topic", "lag", "group", "name", "partition"),
    "order": ("", "desc"),
    "page": ("1", "2"),
    "as": ("text", "json", "hex"),
    "count": ("10", "50"),
    "since": ("0",),
    "next": ("/ui/topics",),
    "state": ("x",),
    "code": ("x",),
    "error": ("access_denied",),
    "iss": ("http://127.0.0.1:1",),
    "live": (FLOW, f"topics:{FLOW}", f"rehearsal:{FLOW}"),
    "version": ("1",),
    "name": ("copy",),
    "mode": ("run", "abort", "release", "keep", "stop", "forget"),
    "kind": ("planned", "emergency", "back"),
    "fence": ("", "acl", "quota", "none"),
    "near": ("10",),
    "timeout": ("60",),
    "take_over": ("", "yes"),
    "names": ("kept", "prefixed"),
    "groups": ("yes", ""),
    "acls": ("", "yes"),
    "all": ("", "yes"),
    "user": (USER,),
    "password": (PASSWORD,),
    "source_alias": ("east",),
    "source_servers": ("east-1:9092",),
    "source_protocol": ("PLAINTEXT", "SSL"),
    "source_mechanism": ("",),
    "source_user": ("",),
    "source_password": ("",),
    "source_authorities": ("", PEM),
    "target_alias": ("west",),
    "target_servers": ("west:9093",),
    "target_protocol": ("SASL_PLAINTEXT",),
    "target_mechanism": ("PLAIN", "SCRAM-SHA-512"),
    "target_user": ("mover",),
    "target_password": ("",),
    "target_authorities": ("", PEM),
}
"""Good values of each field; with the first of each, every form has an effect."""


class WatchedMigrations(ScriptedStore):
    """Keeps the migrations whose process would begin."""

    def __init__(self, sources: FakeSources, home: Path) -> None:
        super().__init__(sources, home)
        self.ran: list[str] = []

    def run(self, migration: Migration, digest: str) -> None:
        self.keep_file(migration, digest)
        self.ran.append(migration.id)

    def planned(self) -> Migration:
        """A migration with a plan; the store forgets old migrations."""
        found = next((one for one in self._migrations.values() if one.plan is not None), None)
        if found is None:
            found = self.begin_migration(DRAFT)
            self.make_plan(found, found.draft)
        return found

    @property
    def state(self) -> list[object]:
        kept = [(one.id, one.draft, one.plan, one.file) for one in self._migrations.values()]
        return [kept, list(self.ran), sorted(self.home.iterdir())]


@dataclass
class WatchedConsole:
    """A console, as browsers ask it by `app`; its process may have more applications beside it."""

    app: ASGIApp
    console: ConsoleApp
    sources: FakeSources
    rest: FakeRest
    migrations: WatchedMigrations | None = None
    routes: Sequence[Route] = field(init=False)

    def __post_init__(self) -> None:
        self.routes = [one for one in self.console.routes if one.path.startswith(self.site.root)]

    @property
    def site(self) -> ConsoleSite:
        return self.console.site

    @property
    def locked(self) -> bool:
        return self.site.settings.needs_login

    @property
    def values(self) -> Mapping[str, Sequence[str]]:
        if self.migrations is None:
            return {**VALUES, "id": ("new", COMMAND.id), "draft": ("",)}
        planned = self.migrations.planned()
        return {**VALUES, "id": (planned.id, COMMAND.id), "draft": (planned.draft.digest,)}

    @property
    def paths(self) -> list[str]:
        """The paths of all routes below the root of the console, by its own table."""
        return [one.path for one in self.routes]

    @property
    def forms(self) -> list[str]:
        """The paths that take forms."""
        endpoints = [(one.path, one.endpoint) for one in self.routes]
        return [
            path for path, one in endpoints if isinstance(one, ConsoleEndpoint) and one._handlers["POST"] is not None
        ]

    def log_in(self) -> Browser:
        """A browser with a session of its own."""
        login = Credentials(USER, PASSWORD).authorization if self.site.settings.keeps_logins else None
        session = self.site.sessions.begin(USER if self.locked else "", login)
        return Browser(self.app, cookies={SESSION_COOKIE: session.name})

    def token(self, browser: Browser, path: str) -> str:
        """The token that the form at a path needs; the form of the login has a cookie of its own."""
        if path.endswith("/login"):
            browser.cookies[FORM_COOKIE] = "form"
            return self.site.sessions.token("form")
        return self.site.sessions.token(browser.cookies[SESSION_COOKIE])

    @property
    def effects(self) -> list[Any]:
        """All that requests have changed until now."""
        brokers = self.sources.brokers
        users = [name for name, one in self.site.sessions._sessions.items() if one.user]
        return [
            list(self.sources.only.submitted),
            list(self.rest.sent),
            sorted(self.site.conductor._conducted),
            (list(brokers.records), brokers.fenced, dict(brokers.committed), list(brokers.lifts)),
            None if self.migrations is None else self.migrations.state,
            sorted(users),
        ]


def encoded(fields: Sequence[tuple[str, str]]) -> bytes:
    """Fields as a query or as the body of a form."""
    return urlencode(fields, errors="replace").encode()


@contextmanager
def watching(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[WatchedConsole]:
    """A console of a kind of `KINDS`; a stream of events ends at once."""
    monkeypatch.setattr("twinlog.ui.events.LONGEST_S", 0.0)
    sources, rest = FakeSources(), fake_worker()
    sources.rest = rest
    sources.only.topics = [topic("a.b"), topic("orders", 3)]
    sources.only.moves = [SKIP]
    sources.only.asked.outcomes = (CommandOutcome(COMMAND, CommandState.APPLIED, NOW, "host-1", moves=(SKIP,)),)
    sources.only.pairs = [RecordPair(ONE, ONE._replace(timestamp=1 << 62))]
    users = Users({USER: PASSWORD})
    if kind == "worker":
        with _of_a_worker(sources, rest, users, monkeypatch) as found:
            yield found
        return
    settings = ConsoleSettings(
        users if kind in ("locked", "oauth") else None,
        actions=kind != "read-only",
        open_id=OUT_OF_REACH if kind == "oauth" else None,
    )
    console = console_app(sources, settings)
    migrations = WatchedMigrations(sources, folder)
    migrations.planned()
    console.site.migrations = migrations
    yield WatchedConsole(console, console, sources, rest, migrations)
    console.close()


@contextmanager
def _of_a_worker(
    sources: FakeSources, rest: FakeRest, users: Users, monkeypatch: pytest.MonkeyPatch
) -> Iterator[WatchedConsole]:
    """The console at `/ui` of a worker's REST API."""
    monkeypatch.setattr("twinlog.ui.sources.ProcessSources", lambda *_: sources)
    api = RestApi(FakeHerder(), RestSettings(listeners=LOOPBACK), SYSTEM, users)
    mounted = MountedConsole(ServedConsole(), users, lambda: FlowsOfFile([]), lambda: Access("connect", 8083))
    app = public_app(api, mounted)
    assert Browser(app).get("/ui/login").status == 200
    assert mounted._made is not None
    yield WatchedConsole(app, mounted._made.result(), sources, rest)
    mounted.close()
    api.pools.close()
