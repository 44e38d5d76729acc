"""Checks the queries of `transform.sql` by Spark's analysis before a start; reading a file works without a JVM."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from twinlog.config.connector import line_of
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.config.keys.key import UnknownKeys
from twinlog.config.load import LoadedFile, load_file
from twinlog.config.text.explain import entry_of
from twinlog.errors import ConfigError, EngineError
from twinlog.errors.mistakes import ConfigProblem, ConfigWarning, MistakeKind
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.settings.written import key_of

log = logging.getLogger(__name__)

_EXPECTED = "SELECT ... FROM records WHERE ..., which changes each record by itself"


def check_queries(flows: Iterable[FlowSettings], path: str | Path, more: Sequence[Path] = ()) -> list[ConfigWarning]:
    """Let Spark analyse the queries of the flows in the file at `path`, or in a file of `more`.

    Takes some seconds for a JVM that ends with the check; if the flows lack queries, it returns at once. Returns
    warnings if the JVM fails to start here. Raises ConfigError with Spark's reasons for unusable queries.
    """
    written = [(flow, text) for flow in flows if (text := _query(flow))]
    if not written:
        return []
    # If queries are absent, pyspark stays unloaded.
    from twinlog.transforms.sql.query import refusals  # noqa: PLC0415

    try:
        found = refusals([text for _, text in written])
    except EngineError as error:
        text = f"the check of the queries of transform.sql failed: {error}"
        return [ConfigWarning(str(path), None, "", text, kind=MistakeKind.TRANSFORM)]
    problems = [_problem(flow, found[text], [Path(path), *more]) for flow, text in written if text in found]
    if problems:
        raise ConfigError(problems)
    return []


def checked_file(path: str | Path, clusters: Sequence[str] | None, unknown_keys: UnknownKeys = "fail") -> LoadedFile:
    """Return a file for a run, after all checks: those of `load`, and the analysis of its queries by Spark.

    Raises ConfigError.
    """
    loaded = load_file(path, clusters, unknown_keys=unknown_keys)
    unchecked = check_queries(loaded.config.flows, path)
    return replace(loaded, config=replace(loaded.config, warnings=(*loaded.config.warnings, *unchecked)))


def refused_query(flow: FlowSettings, *, ask: bool = True) -> str | None:
    """The reason why Spark refuses the query of a flow; None if Spark accepts it, or if the flow lacks a query.

    Takes as long as `check_queries`, unless this process has asked for the same query before; with `ask` false only
    known queries are refused. If the JVM fails to start here, this is logged, and the query is accepted: the run
    reports its problems.
    """
    text = _query(flow)
    if not text:
        return None
    from twinlog.transforms.sql.query import refusals  # noqa: PLC0415

    try:
        return refusals([text], ask=ask).get(text)
    except EngineError as error:
        log.warning("TW-SQL-05: %s: the check of its query of transform.sql failed: %s", flow.name, error)
        return None


def _query(flow: FlowSettings) -> str:
    """The query that records of a flow pass through; empty if the flow lacks a query."""
    return flow.transform.sql if flow.copies and flow.transform else ""


def _problem(flow: FlowSettings, reason: str, paths: Sequence[Path]) -> ConfigProblem:
    key = key_of(TransformSettings, "sql")
    if kind_of(paths[0]) is FileKind.MIRROR:
        entry = entry_of(paths[0], flow.written_as(key))
        if entry is not None:
            return ConfigProblem(entry.file, entry.line, entry.key, reason, _EXPECTED)
    for path in paths:
        line = line_of(path.read_text("utf-8", "replace"), key)
        if line is not None:
            return ConfigProblem(str(path), line, f"{flow.name}: {key}", reason, _EXPECTED)
    return ConfigProblem(str(paths[0]), None, f"{flow.name}: {key}", reason, _EXPECTED)
