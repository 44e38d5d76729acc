"""Spark SQL on the columns of a fetch: what comes out, what is refused, and what an error or a lost process leaves."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors.exceptions.captured import install_exception_handler

from harness.spark.cheap_sql import cheap_sql
from harness.wait import wait_for
from twinlog.batches.arrow.arrays import schema
from twinlog.errors import EngineLostError, TransformError
from twinlog.transforms.contract import FailedRow, apply, checked
from twinlog.transforms.sql.catalyst import COLUMNS
from twinlog.transforms.sql.evaluate import SqlEvaluation
from twinlog.transforms.sql.jvm import SqlJvm
from twinlog.transforms.sql.query import analyse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STARTS_ONE = "import time; from twinlog.transforms.sql.jvm import SqlJvm; print(SqlJvm().process.pid, flush=True)"


@pytest.fixture(scope="module", autouse=True)
def cheap() -> Iterator[None]:
    with cheap_sql():
        yield


@pytest.fixture(scope="module")
def jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlJvm]:
    of_the_executor = tmp_path_factory.mktemp("executor")
    # As in a process with a SparkSession, which may be of another JVM, or have ended.
    install_exception_handler()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_LOCAL_DIRS", str(of_the_executor))
        environment.setenv("TZ", "Asia/Tokyo")
        jvm = SqlJvm()
    yield jvm
    jvm.close()
    assert not list(of_the_executor.iterdir()), "it was killed, and left something in the directory of an executor"


def rows(*values: bytes | None) -> Any:
    return pa.RecordBatch.from_pylist(
        [
            {
                "key": b"k%d" % number,
                "value": value,
                "topic": "east.orders",
                "partition": 3,
                "offset": 10 + 2 * number,
                "timestamp": number * 1000,
                "timestampType": 0,
                "headers": [{"key": "h", "value": b"%d" % number}] if number % 2 else None,
            }
            for number, value in enumerate(values)
        ],
        schema=schema(headers=True),
    )


def made(jvm: SqlJvm, text: str, given: Any) -> list[dict[str, Any]]:
    evaluation = SqlEvaluation(jvm, text)
    try:
        found: list[dict[str, Any]] = checked(given, evaluation(given)).to_pylist()
        return found
    finally:
        evaluation.close()


def test_records_are_filtered_cast_and_keyed_anew(jvm: SqlJvm) -> None:
    text = """SELECT cast(get_json_object(cast(value AS STRING), '$.a') AS INT) % 7 || '' AS key, NULL AS partition
        FROM records WHERE offset % 4 = 2 -- every other one"""
    given = rows(*(b'{"a":%d}' % number for number in range(20)))
    before = given.to_pylist()
    wanted = [{**before[at], "key": b"%d" % (at % 7), "partition": None} for at in range(0, 20, 2)]
    assert made(jvm, text, given) == wanted


def test_columns_that_are_not_selected_stay(jvm: SqlJvm) -> None:
    given = rows(b"a", None, b"c")
    before = given.to_pylist()
    assert made(jvm, "SELECT * FROM records", given) == before
    assert made(jvm, "SELECT value FROM records WHERE value IS NOT NULL", given) == [before[0], before[2]]
    assert [one["value"] for one in made(jvm, "SELECT key AS value FROM records", given)] == [b"k0", b"k1", b"k2"]
    no_headers = made(jvm, "SELECT filter(headers, h -> h.key <> 'h') AS headers FROM records r", given)
    assert [one["headers"] for one in no_headers] == [None, [], None]
    one_more = "concat(coalesce(headers, array()), array(named_struct('key', 'x', 'value', key)))"
    added = [one["headers"] for one in made(jvm, f"SELECT {one_more} AS headers FROM records", given)]
    assert [[header["key"] for header in headers] for headers in added] == [["x"], ["h", "x"], ["x"]]


TEXT = "cast(value AS STRING)"
NUMBER = f"cast({TEXT} AS INT)"
NESTED = "upper(cast(key AS STRING))"
for _number in range(16):
    NESTED = f"nullif({NESTED}, 'K{_number}')"


@pytest.mark.parametrize(
    "text",
    [
        # Spark plans these with common expressions, in a Project of their own.
        f"SELECT offset, nullif(regexp_replace({TEXT}, '3+', '9'), '9') AS key FROM records",
        f"SELECT offset, nullif({NUMBER}, 3) || '' AS key FROM records WHERE key <> 'k1'",
        f"SELECT offset, {NESTED} AS key FROM records",
        f"SELECT offset, CASE WHEN key <> 'k1' THEN nullif({NUMBER}, 1) || 'x' END AS key FROM records",
        f"SELECT offset, key FROM records WHERE length({TEXT}) BETWEEN 2 AND 4",
        f"SELECT offset, key FROM records WHERE length({TEXT}) NOT BETWEEN 2 AND 4",
        f"SELECT offset, key FROM records WHERE key <> 'k1' AND {NUMBER} * 2 BETWEEN 3 AND nullif({NUMBER}, 333) * 2",
        "SELECT offset, key FROM records WHERE offset BETWEEN 12 AND 14",
        "SELECT offset, key FROM records WHERE timestamp BETWEEN '1970-01-01' AND '1970-01-01 00:00:00.002'",
        "SELECT offset, transform(headers, h -> nullif(upper(h.key), 'H') || 'x')[0] AS key FROM records",
        # So Spark does with a name that is used twice.
        f"SELECT offset, lower(k) || upper(k) AS key FROM (SELECT offset, replace({TEXT}, '3', 'aB') k FROM records)",
        f"SELECT offset, k AS key FROM (SELECT offset, nullif(upper({TEXT}), '1') k FROM records) WHERE k || k > '1'",
        # What the left side of an AND decides on is not evaluated on its right side.
        f"SELECT offset, key FROM records WHERE key <> 'k1' AND {NUMBER} BETWEEN 1 AND 20",
        f"SELECT offset, key FROM records WHERE key <> 'k1' AND {NUMBER} > 0 AND {NUMBER} < 20",
        # Leaves that are no columns.
        f"SELECT offset, key FROM records WHERE {TEXT} COLLATE UTF8_LCASE = 'XYZZY'",
        "SELECT offset, convert_timezone('Asia/Tokyo', timestamp_ntz '2021-12-05') || '' AS key FROM records",
        "SELECT offset, current_timezone() AS key FROM records",
        "SELECT offset, concat() || to_json(struct(array(), map(), map_concat(), arrays_zip())) AS key FROM records",
    ],
)
def test_a_query_gives_what_it_gives_in_a_job_of_spark(jvm: SqlJvm, spark: SparkSession, text: str) -> None:
    given = rows(b"1", b"xyzzy", b"333", None, b"12")
    types = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    spark.createDataFrame(given.to_pylist(), types).createOrReplaceTempView("records")
    wanted = {
        row.offset: row.key.encode() if isinstance(row.key, str) else row.key for row in spark.sql(text).collect()
    }
    assert wanted
    assert {one["offset"]: one["key"] for one in made(jvm, text, given)} == wanted


def test_the_jvm_is_given_no_column_that_it_only_passes_on(jvm: SqlJvm) -> None:
    text = "SELECT value, nullif(upper(cast(key AS STRING)), 'K1') AS key FROM records WHERE topic <> ''"
    assert analyse(jvm, text).needs == ("key", "topic")
    assert [one["value"] for one in made(jvm, text, rows(b"a", b"b"))] == [b"a", b"b"]


def test_the_time_zone_is_utc_wherever_the_jvm_runs(jvm: SqlJvm) -> None:
    text = "SELECT date_format(timestamp, 'HH:mm') AS key, timestamp '1970-01-02' AS timestamp FROM records"
    (found,) = made(jvm, text, rows(b"a"))
    assert found["key"] == b"00:00"
    assert found["timestamp"].timestamp() == 24 * 3600


def test_capitals_do_not_matter(jvm: SqlJvm) -> None:
    given = rows(b"a", b"b")
    before = given.to_pylist()
    assert made(jvm, "SELECT KEY, TimestampType FROM Records WHERE Value = 'b'", given) == [before[1]]
    found = made(jvm, "select VALUE as KEY, records.Key AS Value from RECORDS", given)
    assert [(one["key"], one["value"]) for one in found] == [(b"a", b"k0"), (b"b", b"k1")]


def test_a_column_of_a_record_that_is_left_out_is_not_evaluated(jvm: SqlJvm) -> None:
    text = "SELECT cast(cast(cast(value AS STRING) AS INT) * 2 AS STRING) AS value FROM records WHERE key <> 'k1'"
    assert [one["value"] for one in made(jvm, text, rows(b"1", b"x", b"3"))] == [b"2", b"6"]


def test_much_at_once_comes_in_order(jvm: SqlJvm) -> None:
    given = rows(*(b"%07d" % number + b"x" * 1000 for number in range(30_000)))
    found = made(jvm, "SELECT substring(value, 1, 7) AS value FROM records WHERE offset % 3 = 0", given)
    assert [(one["offset"], one["value"]) for one in found] == [
        (10 + 2 * number, b"%07d" % number) for number in range(30_000) if (10 + 2 * number) % 3 == 0
    ]


def test_an_error_names_its_record_and_leaves_nothing_behind(jvm: SqlJvm) -> None:
    evaluation = SqlEvaluation(jvm, "SELECT cast(cast(cast(value AS STRING) AS INT) AS STRING) AS value FROM records")
    given = rows(*(b"x" if number == 37 else b"%d" % number for number in range(100)))
    for _ in range(3):
        failures: list[FailedRow] = []
        found = [row for part in apply(evaluation, given, failures.append) for row in part.column("value").to_pylist()]
        assert found == [b"%d" % number for number in range(100) if number != 37]
        (failure,) = failures
        assert failure.offset == 84
        assert failure.reason.startswith("[CAST_INVALID_INPUT] The value 'x'")
    evaluation.close()
    assert jvm.java.org.apache.spark.sql.util.ArrowUtils.rootAllocator().getAllocatedMemory() == 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT nokey FROM records", r"\[UNRESOLVED_COLUMN.*`nokey`"),
        ("SELEC value FROM records", r"\[PARSE_SYNTAX_ERROR\] Syntax error at or near 'SELEC'"),
        ("SELECT nofunction(key) AS key FROM records", r"\[UNRESOLVED_ROUTINE\].*`nofunction`"),
        ("SELECT value FROM others", "it reads others; the only table is records"),
        ("SELECT count(*) AS value FROM records", "it has Aggregate"),
        ("SELECT value FROM records ORDER BY offset", "it has Sort"),
        ("SELECT DISTINCT value FROM records", "it has Distinct"),
        ("SELECT value FROM records LIMIT 3", "it has GlobalLimit"),
        (
            "SELECT explode(split(cast(value AS STRING), ',')) AS value FROM records",
            "only a function can add records",
        ),
        ("SELECT a.value FROM records a JOIN records b", "it has Join"),
        ("SELECT row_number() OVER (ORDER BY offset) AS key FROM records", "it has Window"),
        ("DROP TABLE records", "it has DropTable"),
        ("CREATE TABLE x AS SELECT * FROM records", "it has CreateTableAsSelect"),
        ("SELECT (SELECT max(key) FROM records) AS key FROM records", "it has a query of its own within"),
        ("SELECT value FROM records WHERE key IN (SELECT key FROM records)", "it has a query of its own within"),
        ("SELECT uuid() AS key FROM records", "has another result each time"),
        ("SELECT java_method('java.lang.System', 'lineSeparator') AS key FROM records", "has another result"),
        ("SELECT cast(current_timestamp() AS STRING) AS key FROM records", "current_timestamp has another result"),
        ("SELECT cast(current_time() AS STRING) AS key FROM records", "current_time has another result"),
        ("SELECT nullif(uuid(), '') AS key FROM records", "has another result each time"),
        ("SELECT value FROM records WHERE now() BETWEEN timestamp AND timestamp", "now has another result"),
        ("SELECT current_user() AS key FROM records", "current_user has another result"),
        ("SELECT version() AS key FROM records", "version has another result"),
        ("SELECT offset + 1 AS offset FROM records", "it changes the column offset"),
        ("SELECT 1 AS key FROM records", "its column key is int, and has to be binary; write a CAST"),
        ("SELECT value AS foo FROM records", "it selects the column foo; there are key, value"),
        ("SELECT value, key AS VALUE FROM records", "it selects two columns of the name value"),
        ("SELECT 1 + OFFSET AS Offset FROM records", "it changes the column offset"),
        ("SELECT value FROM records WHERE false", "its condition is false for every record"),
    ],
)
def test_what_cannot_be_done_record_by_record_is_refused(jvm: SqlJvm, text: str, complaint: str) -> None:
    with pytest.raises(TransformError, match=complaint):
        SqlEvaluation(jvm, text)


def test_the_jvm_ends_with_the_process_that_started_it() -> None:
    starting = subprocess.Popen([sys.executable, "-c", STARTS_ONE + "; time.sleep(600)"], stdout=subprocess.PIPE)
    assert starting.stdout is not None
    started = Path("/proc") / starting.stdout.readline().decode().strip()
    assert started.is_dir()
    os.kill(starting.pid, signal.SIGKILL)
    starting.wait()
    starting.stdout.close()
    wait_for(lambda: not started.is_dir(), 60, "the JVM ends")


def test_a_jvm_that_hangs_keeps_nobody_from_ending_a_flow() -> None:
    jvm = SqlJvm()
    try:
        assert jvm.process is not None
        evaluation = SqlEvaluation(jvm, "SELECT value FROM records")
        # Only what hangs is to be killed, so that the query had all the time it wanted.
        evaluation._answer_s = 1.0
        unused = jvm.java.java.lang.Object()
        # Its method and it refer to each other, so that only the garbage collector frees it.
        unused.hashCode()
        os.kill(jvm.process.pid, signal.SIGSTOP)
        # One thread takes the signal, and the others work until it does.
        os.waitid(os.P_PID, jvm.process.pid, os.WSTOPPED)
        del unused
        collecting = threading.Thread(target=gc.collect, daemon=True)
        collecting.start()
        collecting.join(60)
        assert not collecting.is_alive()
        ending = threading.Thread(target=evaluation.close, daemon=True)
        ending.start()
        ending.join(60)
        assert not ending.is_alive()
        assert jvm.hung
    finally:
        jvm.close()


def test_the_record_that_a_query_never_ends_on_is_known() -> None:
    """Java's regular expressions go back and forth for ever where one part may match in many ways."""
    jvm = SqlJvm()
    try:
        for_ever = r"regexp_replace(cast(value AS STRING), '^([a-z]+ ?)*\\1$', 'x') AS value"
        evaluation = SqlEvaluation(jvm, f"SELECT {for_ever} FROM records", 2.0)
        assert 0 < jvm._cpu_s() < 3600
        with pytest.raises(EngineLostError, match="has been silent for 2 s, and was killed"):
            evaluation(rows(b"a", b"b", b"a" * 60 + b"!", b"c"))
        assert evaluation.stuck_at == 14
        assert jvm.hung_for_me()
        evaluation.close()
    finally:
        jvm.close()
