"""What a Spark task does: find or start the process's copier, join the lease, and say now and then what was copied."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from typing import Any

from twinlog.task.host import CopierHost, LeaseTicket

ROW_EVERY_S = 10.0

_hosts: dict[tuple[str, int], CopierHost] = {}
"""Copiers of this process by flow and driver; Spark reuses its Python workers, so they are found again."""


def copy_under_lease(ticket: LeaseTicket, planned: int) -> Iterator[tuple[Any, ...]]:
    """Copy until the lease is over; yields rows of (flow, lease, slot, copier, partitions, records, bytes).

    Raises what stopped the copier, so that Spark runs the task again in another worker.
    """
    host = _host(ticket)
    reporter = host.reporter
    records = size = 0
    over = False
    while not over:
        over = host.wait(ticket.lease, ROW_EVERY_S)
        now = reporter.records, reporter.bytes
        yield (
            ticket.settings.name,
            ticket.lease,
            ticket.slot,
            host.name,
            planned,
            now[0] - records,
            now[1] - size,
        )
        records, size = now


def _host(ticket: LeaseTicket) -> CopierHost:
    """The process's copier, which has joined the lease; a new one when there is none, or when it is about to end."""
    key = (ticket.settings.name, ticket.address.port)
    host = _hosts.get(key)
    while host is None or not host.join(ticket):
        # kafka-python tells of every lost connection as an error; a copier retries, and reports what lasts.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        host = _hosts[key] = CopierHost(ticket)
        gc.collect()
        gc.freeze()
    return host
