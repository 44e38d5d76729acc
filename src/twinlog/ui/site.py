"""The common parts of all pages: settings, flows with their live readings, sessions and threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinlog.clock import SYSTEM, Clock
from twinlog.connect.rest.middleware import CONSOLE_ROOT
from twinlog.connect.rest.thread_pools import ThreadPool
from twinlog.connect.rest.users import Users
from twinlog.errors import RequestError
from twinlog.ops.connectors.rest import ConnectRest
from twinlog.settings.flow import FlowSettings
from twinlog.settings.open_id import OpenIdSettings
from twinlog.ui.assets import ConsoleAssets
from twinlog.ui.conducting import SwitchoverConductor
from twinlog.ui.live.flows import LiveFlows
from twinlog.ui.live.parts import LiveParts
from twinlog.ui.live.poller import LivePoller
from twinlog.ui.login.login_check import LoginCheck
from twinlog.ui.login.open_id.code_flow import CodeFlow
from twinlog.ui.login.sessions import SessionStore
from twinlog.ui.rendering import PageRenderer
from twinlog.ui.sources import ConsoleSources

if TYPE_CHECKING:
    from twinlog.ui.migration.migrations import MigrationStore

ROOT = CONSOLE_ROOT


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The settings of a console. With `users` and `open_id` None it serves only browsers of this machine, without a
    login. Users log in by a password of `users`, or at the issuer of `open_id`.

    A session ends `idle_s` seconds after the last request of its user, and `absolute_s` seconds after its login. A form
    has at most `body_bytes` bytes, and `body_s` seconds to arrive. `streams` browsers get live figures at a time. A
    page waits `first_read_s` seconds for the first answer of the clusters, an action `action_s` for its outcome. With
    `actions` False every page only shows. With `records` False the console leaves keys and values of records out. The
    option or the key that turned them off is in `actions_switch` and `records_switch`, for texts. With `keeps_logins`
    a session keeps the login of its user, in memory, for requests to the worker's REST API. The files of migrations go
    to the folder `migrations`; None turns migrations off.
    """

    users: Users | None = None
    idle_s: float = 3600.0
    absolute_s: float = 12 * 3600.0
    sessions: int = 1000
    sessions_of_user: int = 20
    body_bytes: int = 512 * 1024
    body_s: float = 15.0
    streams: int = 64
    first_read_s: float = 3.0
    action_s: float = 10.0
    actions: bool = True
    records: bool = True
    actions_switch: str = "--read-only"
    records_switch: str = "--no-records"
    keeps_logins: bool = False
    migrations: Path | None = None
    open_id: OpenIdSettings | None = None

    @property
    def has_passwords(self) -> bool:
        """Whether users log in by passwords; an empty file of users lets everyone in, as the REST API does."""
        return self.users is not None and not self.users.everyone

    @property
    def needs_login(self) -> bool:
        """Whether a browser has to log in."""
        return self.has_passwords or self.open_id is not None


ACTIONS_AT_A_TIME = 4
"""The actions on a flow, on the connectors of the worker, and on migrations that run at a time."""


@dataclass(frozen=True, slots=True)
class ConsoleThreads:
    """The threads of the console: for reads and renders that wait, for passwords, for the issuer of logins, and for
    actions: on each flow, on connectors, and on migrations. Actions that wait for silent clusters hold up only actions
    on the same flow, and logins that wait for a silent issuer hold up only logins at the issuer."""

    read: ThreadPool = field(default_factory=lambda: ThreadPool("console-read", 8))
    login: ThreadPool = field(default_factory=lambda: ThreadPool("console-login", 2))
    issuer: ThreadPool = field(default_factory=lambda: ThreadPool("console-issuer", 4))
    connectors: ThreadPool = field(default_factory=lambda: ThreadPool("console-connectors", ACTIONS_AT_A_TIME))
    migrations: ThreadPool = field(default_factory=lambda: ThreadPool("console-migrations", ACTIONS_AT_A_TIME))
    flows: dict[str, ThreadPool] = field(default_factory=dict)

    def of_flow(self, flow: FlowSettings) -> ThreadPool:
        """The threads for actions on a flow. Used by the event loop only."""
        found = self.flows.get(flow.name)
        if found is None:
            found = self.flows[flow.name] = ThreadPool(f"console-act {flow.name}", ACTIONS_AT_A_TIME)
        return found

    def close(self) -> None:
        pools = (self.read, self.login, self.issuer, self.connectors, self.migrations, *self.flows.values())
        for pool in pools:
            pool.close()


class ConsoleSite:
    """A console until `close`."""

    def __init__(self, sources: ConsoleSources, settings: ConsoleSettings, clock: Clock = SYSTEM) -> None:
        self.sources = sources
        self.settings = settings
        self.clock = clock
        self.root = ROOT
        self.live = LiveFlows(sources, clock)
        self.live_parts = LiveParts(self.live)
        self.conductor = SwitchoverConductor(sources, clock)
        self.sessions = SessionStore(
            clock,
            idle_s=settings.idle_s,
            absolute_s=settings.absolute_s,
            most=settings.sessions,
            most_of_user=settings.sessions_of_user,
        )
        self.migrations = None if settings.migrations is None else _migrations(sources, settings.migrations)
        self.threads = ConsoleThreads()
        self.logins = LoginCheck(settings.users, self.threads.login, clock)
        self.open_id = None if settings.open_id is None else CodeFlow(settings.open_id, clock)
        self.assets = ConsoleAssets(ROOT)
        self.renderer = PageRenderer(ROOT, self.assets)
        self.closed = False

    async def wait_fresh(self, *pollers: LivePoller[Any]) -> None:
        """Have pollers read, and wait a moment for the pollers whose newest reading is stale."""
        for poller in pollers:
            poller.touch()
        until = self.clock.monotonic() + self.settings.first_read_s
        for poller in pollers:
            if poller.is_stale:
                left_s = max(0.0, until - self.clock.monotonic())
                await self.threads.read.run(partial(poller.wait_fresh, left_s))

    def require_actions(self) -> None:
        """Raise RequestError 403 if every page only shows."""
        if not self.settings.actions:
            raise RequestError(403, f"This console only shows: `{self.settings.actions_switch}` turned actions off.")

    @property
    def lacks_migrations(self) -> str:
        """The reason why the console lacks migrations, "" if it has them."""
        if not self.settings.actions:
            return f"`{self.settings.actions_switch}` turned actions off"
        return "" if self.migrations is not None else "a process that runs flows leaves them to `twinlog console`"

    def open_rest(self, authorization: str | None) -> ConnectRest | None:
        """The REST API of the Connect worker, with the login of a session; None if the console knows none.

        Raises RequestError 403 if the API of the console's own worker has users, and the user of the session has
        logged in at the issuer.
        """
        if self.settings.keeps_logins and self.settings.has_passwords and authorization is None:
            raise RequestError(
                403, "The REST API of this worker has users of its own: log out, and log in by the password of a user."
            )
        return self.sources.open_rest(authorization)

    def require_rest(self, authorization: str | None) -> ConnectRest:
        """The same. Raises RequestError 404 if there is none."""
        found = self.open_rest(authorization)
        if found is None:
            raise RequestError(404, "The console knows no Connect worker: start it with --url URL.")
        return found

    def close(self) -> None:
        """End the live readings, the streams of browsers, and the threads."""
        self.closed = True
        self.conductor.close()
        self.live.close()
        self.threads.close()
        if self.migrations is not None:
            self.migrations.close()


def _migrations(sources: ConsoleSources, folder: Path) -> MigrationStore:
    # A process that runs flows has no migrations: its console begins without their readers.
    from twinlog.ui.migration.migrations import MigrationStore  # noqa: PLC0415

    return MigrationStore(sources, folder)
