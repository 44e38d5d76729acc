"""Beans of a worker, of its connectors and of their tasks (Kafka class ConnectMetricsRegistry)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import nan

from twinlog.metrics.beans import CONNECT, BeanTable, Value, bean
from twinlog.metrics.facts import PACKAGE, ConnectorFacts, WorkerFacts
from twinlog.metrics.meters import FlowMeters

_TASK_STATES = ("running", "paused", "failed", "unassigned", "destroyed", "restarting")


def worker_beans(facts: WorkerFacts) -> Iterator[BeanTable]:
    """The worker as a whole, its group, and the number of tasks of each connector in each state."""
    tasks = sum(len(one.tasks) for one in facts.connectors)
    yield bean(
        CONNECT,
        "app-info",
        [("version", facts.version), ("start-time-ms", facts.started_ms)],
        client_id=facts.client_id,
    )
    yield bean(
        CONNECT,
        "connect-worker-metrics",
        [
            ("connector-count", len(facts.connectors)),
            ("task-count", tasks),
            *_startups("connector", facts),
            *_startups("task", facts),
        ],
    )
    for one in facts.connectors:
        states = list(one.tasks.values())
        counts: list[tuple[str, Value]] = [("connector-total-task-count", len(states))]
        counts += [(f"connector-{state}-task-count", states.count(state)) for state in _TASK_STATES]
        yield bean(CONNECT, "connect-worker-metrics", counts, connector=one.name)
    since_s, times = facts.since_rebalance_s, facts.rebalance_times_ms
    yield bean(
        CONNECT,
        "connect-worker-rebalance-metrics",
        [
            ("connect-protocol", facts.protocol),
            ("leader-name", facts.leader),
            ("epoch", facts.epoch),
            ("completed-rebalances-total", facts.rebalances),
            ("rebalancing", int(facts.rebalancing)),
            ("rebalance-max-time-ms", max(times, default=nan)),
            ("rebalance-avg-time-ms", sum(times) / len(times) if times else nan),
            ("time-since-last-rebalance-ms", nan if since_s is None else since_s * 1000),
        ],
    )
    yield bean(
        CONNECT,
        "connect-coordinator-metrics",
        [("assigned-connectors", len(facts.connectors)), ("assigned-tasks", tasks)],
        client_id=facts.client_id,
    )


def _startups(what: str, facts: WorkerFacts) -> list[tuple[str, Value]]:
    """The startups of connectors or tasks: a connector of twinlog and its tasks begin together."""
    attempts, failed = facts.starts, facts.failed_starts
    good = attempts - failed
    return [
        (f"{what}-startup-attempts-total", attempts),
        (f"{what}-startup-success-total", good),
        (f"{what}-startup-success-percentage", good / attempts if attempts else nan),
        (f"{what}-startup-failure-total", failed),
        (f"{what}-startup-failure-percentage", failed / attempts if attempts else nan),
    ]


def connector_beans(one: ConnectorFacts, version: str, now: float, meters: FlowMeters | None) -> Iterator[BeanTable]:
    """A connector and its tasks; `meters` belong to a source connector."""
    about: list[tuple[str, Value]] = [
        ("connector-class", one.connector_class),
        ("connector-type", "source"),
        ("connector-version", version),
    ]
    yield bean(CONNECT, "connector-metrics", [("status", one.status), *about], connector=one.name)
    task_class = PACKAGE + one.kind.replace("Connector", "Task")
    for task, status in one.tasks.items():
        tags = {"connector": one.name, "task": str(task)}
        own: list[tuple[str, Value]] = [
            ("status", status),
            ("running-ratio", float(status == "running")),
            ("pause-ratio", float(status == "paused")),
            *about,
            ("task-class", task_class),
            ("task-version", version),
        ]
        totals = None if meters is None else meters.tasks.get(task)
        if totals is not None:
            recent = totals.recent(now)
            own += [
                ("offset-commit-max-time-ms", recent.commit_max_ms),
                ("offset-commit-avg-time-ms", recent.commit_avg_ms),
                ("offset-commit-success-percentage", 1 - recent.commit_failures),
                ("offset-commit-failure-percentage", recent.commit_failures),
                ("batch-size-max", recent.batch_max),
                ("batch-size-avg", recent.batch_avg),
            ]
            yield bean(
                CONNECT,
                "source-task-metrics",
                [
                    ("source-record-poll-rate", recent.read_rate),
                    ("source-record-poll-total", totals.counters.read_records),
                    ("source-record-write-rate", recent.write_rate),
                    ("source-record-write-total", totals.written_records),
                    ("source-record-active-count", totals.counters.waiting_records),
                    ("source-record-active-count-max", recent.waiting_max),
                    ("source-record-active-count-avg", recent.waiting_avg),
                ],
                **tags,
            )
        yield bean(CONNECT, "connector-task-metrics", own, **tags)
        # Events belong to the flow as a whole: the first task shows them for all tasks.
        events: Mapping[str, int] = {} if meters is None or task else meters.events
        failed, left_out = (0, 0) if totals is None else (totals.counters.failed, totals.counters.left_out)
        yield bean(
            CONNECT,
            "task-error-metrics",
            [
                ("total-record-failures", events.get("gap", 0) + events.get("held", 0) + failed),
                ("total-record-errors", left_out + events.get("gap", 0) + events.get("held", 0) + failed),
                ("total-records-skipped", left_out + failed),
                ("total-retries", 0),
                ("total-errors-logged", sum(events.values())),
                ("deadletterqueue-produce-requests", 0 if totals is None else totals.counters.dead_letters),
                ("deadletterqueue-produce-failures", 0 if totals is None else totals.counters.dead_letter_failures),
                ("last-error-timestamp", 0 if meters is None or task else meters.event_ms),
            ],
            **tags,
        )
