"""Metrics of the commands that run flows: the listeners that a file or the command line names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from twinlog.clock import SYSTEM
from twinlog.config.text.values import ValueRefusedError, parse_listener
from twinlog.settings.metrics import MetricsSettings

if TYPE_CHECKING:
    from twinlog.worker.runner import Runner

MetricsListeners = Annotated[
    list[str] | None,
    typer.Option(
        metavar="URL",
        help="Serve /metrics and /metrics.json here, as http://127.0.0.1:9404; instead of twinlog.metrics.listeners.",
        show_default=False,
    ),
]


def with_listeners(settings: MetricsSettings, given: list[str] | None) -> MetricsSettings:
    """The settings of a file with the listeners of a command line instead, if there are any. Raises BadParameter."""
    if not given:
        return settings
    try:
        listeners = tuple(parse_listener(text) for text in given)
    except ValueRefusedError as refused:
        raise typer.BadParameter(
            f"found {refused.found}, expected {refused.expected}", param_hint="--metrics-listener"
        ) from None
    if settings.https is None and any(one.scheme == "https" for one in listeners):
        raise typer.BadParameter(
            "an https address needs twinlog.metrics.listeners and its .https.ssl.keystore.location in FILE",
            param_hint="--metrics-listener",
        )
    return replace(settings, listeners=listeners)


@contextmanager
def served(settings: MetricsSettings, runner: Runner) -> Iterator[None]:
    """Serve the metrics of a runner meanwhile, if they are wanted. Raises OSError for an address in use."""
    if not settings.listeners:
        yield
        return
    from twinlog.connect.metrics import metrics_server  # noqa: PLC0415 - nobody else needs a web server
    from twinlog.metrics.exposition import Pages  # noqa: PLC0415
    from twinlog.worker.run_metrics import RunMetrics  # noqa: PLC0415

    server = metrics_server(settings, Pages(RunMetrics(runner, partitions=settings.partitions, clock=SYSTEM).measure))
    server.start()
    try:
        yield
    finally:
        server.stop()
