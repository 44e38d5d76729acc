"""What a request to restart a connector answers (KIP-745)."""

from __future__ import annotations

from dataclasses import replace

from twinlog.connectors.model import ConnectorState, ConnectorStatus, Restart, Status


def restarting(restart: Restart, before: ConnectorStatus) -> ConnectorStatus:
    """The states of a connector in which each part that the request restarts reads RESTARTING already."""

    def after(status: Status) -> Status:
        meant = not restart.only_failed or status.state is ConnectorState.FAILED
        return replace(status, state=ConnectorState.RESTARTING, trace=None) if meant else status

    tasks = before.tasks
    if restart.include_tasks:
        tasks = {number: after(status) for number, status in tasks.items()}
    return replace(before, connector=after(before.connector), tasks=tasks)
