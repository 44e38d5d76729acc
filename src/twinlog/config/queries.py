"""The queries of `transform.sql`, analysed by Spark before anything starts; reading a file starts no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from twinlog.config.connector_file import line_of
from twinlog.config.explain import entry_of
from twinlog.config.file_kind import FileKind, kind_of
from twinlog.errors import ConfigError, ConfigProblem, EngineError, TransformError
from twinlog.settings.flow import FlowSettings
from twinlog.settings.transform import TransformSettings
from twinlog.settings.written import key_of

_EXPECTED = "SELECT ... FROM records WHERE ..., which changes each record by itself"


def check_queries(flows: Iterable[FlowSettings], path: str | Path, more: Sequence[Path] = ()) -> list[str]:
    """Have Spark analyse the queries of flows that the file at `path`, or one of `more`, asks for.

    Takes some seconds where there is one, for a JVM that ends with it unless this process has one, and no time
    otherwise. Returns warnings where that JVM does not start here. Raises ConfigError with what Spark says of queries
    that cannot be used.
    """
    written = [(flow, flow.transform.sql) for flow in flows if flow.copies and flow.transform and flow.transform.sql]
    if not written:
        return []
    # Who has none loads nothing of pyspark.
    from twinlog.transform.sql.shared import SHARED  # noqa: PLC0415
    from twinlog.transform.sql.transform import SqlTransform  # noqa: PLC0415

    problems: list[ConfigProblem] = []
    there = SHARED.alive
    try:
        for flow, text in written:
            query = SqlTransform(text)
            try:
                query.start()
            except TransformError as error:
                problems.append(_problem(flow, str(error), [Path(path), *more]))
            finally:
                query.close()
    except EngineError as error:
        return [f"{path}: the queries of transform.sql were not checked: {error}"]
    finally:
        if not there:
            SHARED.end()
    if problems:
        raise ConfigError(problems)
    return []


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
