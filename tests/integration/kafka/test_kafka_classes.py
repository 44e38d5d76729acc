"""The record-batch code beside Kafka's own classes: each reads what the other wrote, and the broker's validator agrees.

No broker runs; one Java process answers through pipes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from harness.jvm.command import jvm_command
from tests.any_log import logs, rules
from tests.source_log import New, SourceLog
from twinlog.batches.prepare import prepare
from twinlog.kafka.producer.appends import CopyRules
from twinlog.kafka.record.batch import check_crc, scan
from twinlog.kafka.record.compression import CODECS
from twinlog.kafka.record.records import Record, decode_records
from twinlog.kafka.record.stamp import stamp

TOOL = Path(__file__).parents[1] / "java" / "BatchTool.java"
VALUES = [b"", b"short", b"text " * 4_000, bytes(place * place * 7 % 251 for place in range(70_000))]


class BatchTool:
    """Kafka's `MemoryRecords` and `LogValidator`, asked over pipes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def write(self, magic: int, codec: str, records: Sequence[Record], append_time: int | None = None) -> memoryview:
        words = ["write", str(magic), codec, str(records[0].offset), "-" if append_time is None else str(append_time)]
        for offset, timestamp, key, value, headers in records:
            pairs = ",".join(f"{name.encode().hex()}={_hex(content)}" for name, content in headers)
            words.append(f"{offset};{timestamp};{_hex(key)};{_hex(value)};{pairs}")
        return memoryview(bytearray.fromhex(self._ask(words)))

    def read(self, batches: memoryview | bytearray) -> list[Record]:
        records = []
        for word in self._ask(["read", batches.hex()]).split():
            offset, timestamp, key, value, pairs = word.split(";")
            headers = tuple(_header(pair) for pair in pairs.split(",") if pair)
            records.append(Record(int(offset), int(timestamp), _bytes(key), _bytes(value), headers))
        return records

    def validate(self, batch: memoryview | bytearray) -> str:
        return self._ask(["validate", batch.hex()])

    def _ask(self, words: Sequence[str]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the Java process is gone"
        assert not answer.startswith("error"), answer
        return answer.rstrip("\n")


def _hex(content: bytes | None) -> str:
    return "null" if content is None else content.hex()


def _bytes(word: str) -> bytes | None:
    return None if word == "null" else bytes.fromhex(word)


def _header(pair: str) -> tuple[str, bytes | None]:
    name, content = pair.split("=")
    return bytes.fromhex(name).decode(), _bytes(content)


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BatchTool]:
    log = tmp_path_factory.mktemp("batch-tool") / "stderr"
    command = jvm_command("256m", "quick", str(TOOL))
    with (
        log.open("wb") as stderr,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        yield BatchTool(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


# Format v0 has no timestamps, and zstd came with v2.
SHAPES = [
    (magic, codec, append_time)
    for magic in (0, 1, 2)
    for codec in CODECS
    for append_time in (None, 5_000)
    if (magic == 2 or codec != "zstd") and (magic > 0 or append_time is None)
]


@pytest.mark.parametrize(("magic", "codec", "append_time"), SHAPES)
def test_reads_what_java_writes(java: BatchTool, magic: int, codec: str, append_time: int | None) -> None:
    headers = (("trace", b"\x01"), ("empty", None)) if magic == 2 else ()
    records = [Record(40 + number, 1_000 - number, b"key", value, headers) for number, value in enumerate(VALUES)]
    records.append(Record(44, 2_000, None, None, ()))
    written = java.write(magic, codec, records, append_time)
    for batch in scan(written):
        check_crc(written, batch)
    time = -1 if magic == 0 else append_time
    expected = [record if time is None else record._replace(timestamp=time) for record in records]
    assert [record for batch in scan(written) for record in decode_records(written, batch)] == expected
    assert java.read(written) == expected
    copied = prepare(written, 0, CopyRules()).appends
    for append in copied:
        stamp(append.data, 7, 0, 0)
        assert java.validate(append.data) == "accepted"
    assert [record[1:] for append in copied for record in java.read(append.data)] == [record[1:] for record in expected]


LEVELS: dict[str, list[int]] = {
    "none": [],
    "snappy": [],
    "gzip": [1, 6, 9],
    "lz4": [1, 2, 3, 9, 17],
    "zstd": [-5, 1, 3, 22],
}


@pytest.mark.parametrize(("codec", "level"), [(codec, level) for codec in LEVELS for level in [None, *LEVELS[codec]]])
def test_java_reads_every_codec_and_level(java: BatchTool, codec: str, level: int | None) -> None:
    log = SourceLog()
    log.batch([New(number, value) for number, value in enumerate(VALUES)])
    log.batch([New(9, b"small")], append_time=10)
    appends = prepare(log.fetch(), 0, CopyRules(codec=codec, codec_level=level)).appends
    for append in appends:
        stamp(append.data, 7, 0, 0)
        assert append.data[22] & 7 == CODECS[codec]
        assert java.validate(append.data) == "accepted"
    read = [record[1:] for append in appends for record in java.read(append.data)]
    assert read == [record[1:] for record in log.visible()]


@settings(
    deadline=None,
    max_examples=60,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(log=logs(), rules=rules)
def test_the_broker_takes_every_append_without_rewriting_it(java: BatchTool, log: SourceLog, rules: CopyRules) -> None:
    read: list[tuple[object, ...]] = []
    for append in prepare(log.fetch(), 0, rules, log.aborted()).appends:
        stamp(append.data, 7, 0, 0)
        assert java.validate(append.data) == "accepted"
        read += [record[1:] for record in java.read(append.data)]
    assert read == [record[1:] for record in log.visible(read_committed=rules.read_committed)]


@settings(
    deadline=None,
    max_examples=60,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(log=logs())
def test_java_sees_the_same_in_the_source_log(java: BatchTool, log: SourceLog) -> None:
    """The logs that the laws are tested with are logs in Kafka's eyes, too."""
    data = log.fetch()
    plain = b"".join(data[batch.start : batch.end] for batch in scan(data) if not batch.is_control)
    assert java.read(memoryview(plain)) == log.visible()
