"""The console of a process that runs flows, at `/ui` of the listeners of the process.

The console is made with its first request: a process whose console is unused keeps its memory and its start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.types import Receive, Scope, Send

from twinlog.clock import SYSTEM, Clock
from twinlog.connect.rest.users import Users
from twinlog.console.flow_files import FlowsOfFile
from twinlog.ops.connectors.rest import Access
from twinlog.settings.worker import ServedConsole

if TYPE_CHECKING:
    from twinlog.ui.app import ConsoleApp


class MountedConsole:
    """An application for paths below `/ui`; `close` ends its threads and the streams of browsers.

    `read_flows()` answers the flows of now, and `find_worker()` the way to the process's own REST API, for the pages of
    connectors. Only browsers of this machine are served if `users` are missing or an empty file, and the settings lack
    an issuer.
    """

    def __init__(
        self,
        settings: ServedConsole,
        users: Users | None,
        read_flows: Callable[[], FlowsOfFile],
        find_worker: Callable[[], Access] | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._settings = settings
        self._users = users
        self._read_flows = read_flows
        self._find_worker = find_worker
        self._clock = clock
        self._made: asyncio.Future[ConsoleApp] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._made is None:
            self._made = asyncio.get_running_loop().run_in_executor(None, self._make)
        try:
            app = await asyncio.shield(self._made)
        except Exception:
            # The next request tries again.
            self._made = None
            raise
        await app(scope, receive, send)

    def close(self) -> None:
        """End the threads and the streams; a request after that may fail."""
        made = self._made
        if made is not None and made.done() and made.exception() is None:
            made.result().close()

    def _make(self) -> ConsoleApp:
        from twinlog.ui.app import console_app  # noqa: PLC0415 - templates and readers are slow to import
        from twinlog.ui.site import ConsoleSettings  # noqa: PLC0415
        from twinlog.ui.sources import ProcessSources  # noqa: PLC0415

        # The audit log is complete with -q, too.
        logging.getLogger("twinlog.audit").setLevel(logging.INFO)
        settings = ConsoleSettings(
            self._users,
            actions=self._settings.actions,
            records=self._settings.records,
            actions_switch="twinlog.console.actions.enabled = false",
            records_switch="twinlog.console.records.enabled = false",
            keeps_logins=self._find_worker is not None,
            open_id=self._settings.open_id,
        )
        return console_app(ProcessSources(self._read_flows, self._find_worker, self._clock), settings, self._clock)
