"""The forms of the answer of `twinlog check`: counts, --strict, JSON, annotations of GitHub, and --was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.unit.config.files import kafkas_files, worker_files
from tests.unit.config.said import said
from twinlog.cli.main import app
from twinlog.config.properties import parse_properties
from twinlog.config.worker import load_worker, worker_of
from twinlog.console.flow_files import read_connectors
from twinlog.errors.mistakes import MistakeKind
from twinlog.ops.explain.table import MESSAGES

BASE = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\na->b.enabled = true\n"


def check(folder: Path, text: str, *options: str, name: str = "mm2.properties") -> Result:
    file = folder / name
    file.write_text(text, "utf-8")
    return CliRunner().invoke(app, ["check", str(file), *options])


def test_each_kind_of_mistake_is_explained() -> None:
    assert [kind for kind in MistakeKind if kind.value not in MESSAGES] == []


@pytest.mark.parametrize(
    ("more", "code", "strict", "counts"),
    [
        ("", 0, 0, "0 errors, 0 warnings"),
        ("tasks.max = 2\ntasks.max = 3\n", 0, 1, "0 errors, 1 warning"),
        ("tasks.max = 0\ntasks.max = x\n", 1, 1, "1 error, 1 warning"),
        ("tasks.max = 0\nnobody = x\n", 1, 1, "2 errors, 0 warnings"),
    ],
)
def test_the_last_line_counts_and_strict_fails_warnings(
    tmp_path: Path, more: str, code: int, strict: int, counts: str
) -> None:
    for options, expected in (((), code), (("--strict",), strict)):
        found = check(tmp_path, BASE + more, *options)
        assert (found.exit_code, found.stderr.splitlines()[-1]) == (expected, counts)


def test_json_is_a_list_of_objects(tmp_path: Path) -> None:
    found = check(tmp_path, BASE + "tasks.max = 30s\nemit.checkpoints.enabled = 1\n", "--output", "json")
    file = str(tmp_path / "mm2.properties")
    assert (found.exit_code, found.stderr) == (1, "")
    assert json.loads(found.stdout) == [
        {
            "file": file,
            "line": 5,
            "key": "tasks.max",
            "level": "error",
            "id": "TW-FILE-22",
            "text": "'30s' is invalid",
            "expected": "a whole number of 1 or more, for example 1",
        },
        {
            "file": file,
            "line": 6,
            "key": "emit.checkpoints.enabled",
            "level": "error",
            "id": "TW-FILE-22",
            "text": "'1' is invalid",
            "expected": "true",
        },
    ]
    found = check(tmp_path, BASE, "-o", "json")
    assert (found.exit_code, json.loads(found.stdout), found.stderr) == (0, [], "")
    missing = json.loads(CliRunner().invoke(app, ["check", str(tmp_path / "none"), "-o", "json"]).stdout)
    assert [(one["line"], one["key"], one["text"]) for one in missing] == [(None, None, "No such file or directory")]


def test_annotations_of_github_are_escaped(tmp_path: Path) -> None:
    text = BASE + "a->b.topics = 100%,\\\r\n b[\ntasks.max = 2\ntasks.max = 3\n"
    found = check(tmp_path, text, "--output", "github", name="a,b:c.properties")
    file = str(tmp_path / "a%2Cb%3Ac.properties")
    warning, error = found.stdout.splitlines()
    assert warning == (
        f"::warning file={file},line=8,title=twinlog TW-FILE-38::tasks.max: already written at line 7; this line counts"
    )
    assert error.startswith(f"::error file={file},line=5,title=twinlog TW-FILE-04::a->b.topics: ")
    assert (found.exit_code, found.stderr) == (1, "")
    only = check(tmp_path, BASE + "topics = 5%x y\n", "-o", "github").stdout
    assert "'5%25x y' matches no topic" in only


def test_workers_and_resources_have_the_same_forms(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"name": "s", "connector.class": "MirrorSourceConnector", "tasks.max": 0}')
    found = CliRunner().invoke(app, ["check", str(tmp_path / "s.json"), "-o", "json"])
    assert {one["key"] for one in json.loads(found.stdout)} > {"tasks.max", "source.cluster.alias"}
    assert CliRunner().invoke(app, ["check", str(tmp_path / "s.json"), "--was", "3.9"]).exit_code == 2


def notes(folder: Path, text: str, was: str) -> dict[str, str]:
    found = check(folder, text, "--was", was, "-o", "json")
    assert found.exit_code == 0, found.output
    objects = [one for one in json.loads(found.stdout) if one["level"] == "note"]
    assert {one["id"] for one in objects} <= {"TW-FILE-42"}
    return {one["key"]: one["text"] for one in objects}


def test_what_the_file_did_in_an_earlier_release(tmp_path: Path) -> None:
    found = notes(tmp_path, BASE, "3.9")
    assert found["refresh.topics.interval.seconds"] == (
        "twinlog looks for new topics every 5 s, MirrorMaker 2 of Kafka 3.9 every 600 s; only differences are written; "
        "to keep the old interval write refresh.topics.interval.seconds = 600"
    )
    assert "a->b mirrors topics that end in .internal or -internal" in found["topics.exclude"]
    assert r"write topics.exclude = .*[\\-\\.]internal, .*\\.replica, __.*" in found["topics.exclude"]
    assert "for the old names write add.source.alias.to.metrics = false" in found["add.source.alias.to.metrics"]
    assert "to write them uncompressed add b.producer.compression.type = none" in found["b.producer.compression.type"]
    # Group offsets are not committed unless the file asks for it.
    assert "sync.group.offsets.interval.seconds" not in found
    assert "topics.exclude" not in notes(tmp_path, BASE, "4.3")
    assert "add.source.alias.to.metrics" not in notes(tmp_path, BASE, "4.0.1")


@pytest.mark.parametrize(
    ("more", "was", "key", "words"),
    [
        ("refresh.topics.interval.seconds = 60\n", "3.9", "refresh.topics.interval.seconds", None),
        ("refresh.topics.enabled = false\n", "3.9", "refresh.topics.interval.seconds", None),
        ("sync.group.offsets.enabled = true\n", "3.9", "sync.group.offsets.interval.seconds", "every 60 s"),
        ("b.producer.compression.type = none\n", "3.9", "b.producer.compression.type", None),
        ("topics = orders\n", "3.9", "topics.exclude", None),
        ("topics = sales.internal\n", "3.9", "topics.exclude", "for example sales.internal"),
        ("topics.exclude = .*[\\\\-\\\\.]internal\n", "3.9", "topics.exclude", None),
        ("topics.exclude = x\n", "3.9", "topics.exclude", "left them out"),
        (
            "topics.blacklist = x\n",
            "4.0",
            "topics.blacklist",
            "MirrorMaker 2 of Kafka 4.0 ignored this key (dropped in",
        ),
        ("topics.blacklist = x\n", "3.9", "topics.blacklist", "left them out"),
        ("heartbeats.replication.enabled = false\n", "3.9", "heartbeats.replication.enabled", "(new in 4.0); here it"),
        ("heartbeats.replication.enabled = false\n", "4.1", "heartbeats.replication.enabled", None),
        ("a.consumer.auto.offset.reset = latest\n", "3.9", "a.consumer.auto.offset.reset", "passed over the records"),
        ("a.consumer.auto.offset.reset = earliest\n", "3.9", "a.consumer.auto.offset.reset", None),
    ],
)
def test_only_differences_that_the_file_has_are_named(
    tmp_path: Path, more: str, was: str, key: str, words: str | None
) -> None:
    found = notes(tmp_path, BASE + more, was)
    assert (key in found) == (words is not None)
    assert (words or "") in found.get(key, "")


def test_a_remote_topic_of_two_sources_was_mixed(tmp_path: Path) -> None:
    text = (
        "clusters = a, b, c\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\nc.bootstrap.servers = c:1\n"
        "a->c.enabled = true\nb->c.enabled = true\ntopics = t\ntwinlog.shared.topics = first\n"
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    assert "MirrorMaker 2 of Kafka 3.9 mixed the records of both sources" in notes(tmp_path, text, "3.9")["topics"]
    apart = notes(tmp_path, text + "b->c.topics = u\n", "3.9")
    assert not any("mixed the records" in note for note in apart.values())


def test_notes_are_lines_too_and_fail_nothing(tmp_path: Path) -> None:
    found = check(tmp_path, BASE + "topics.blacklist = x\n", "--was", "4.2", "--strict")
    assert found.exit_code == 1  # The old name is a warning.
    line = f"{tmp_path}/mm2.properties:5: note: topics.blacklist: MirrorMaker 2 of Kafka 4.2 ignored this key"
    assert any(one.startswith(line) for one in found.stderr.splitlines())
    assert check(tmp_path, BASE, "--was", "4.2", "--strict").exit_code == 0
    for wrong in ("2.8", "4.9", "three"):
        answer = CliRunner().invoke(app, ["check", str(tmp_path / "mm2.properties"), "--was", wrong])
        assert answer.exit_code == 2


CONNECTOR = {
    "name": "s",
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a:1",
}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"topics": "orders payments"}, "topics: 'orders payments' matches no topic"),
        ({"topics": "orders|pay ments"}, None),
    ],
)
def test_a_connector_that_would_copy_too_little_is_an_error(
    tmp_path: Path, settings: dict[str, str], words: str | None
) -> None:
    file = tmp_path / "s.json"
    file.write_text(json.dumps({**CONNECTOR, **settings}, indent=1))
    found = CliRunner().invoke(app, ["check", str(file)])
    assert found.exit_code == (0 if words is None else 1), found.output
    assert (words or "") in found.stderr
    if words is not None:
        assert f"{file}:6: error: " in found.stderr
        worker = worker_of(parse_properties(worker_files.distributed(), "w"), "w")
        # As Connect: the connector starts, and its worker logs a warning.
        assert words in "\n".join(said(read_connectors([file], worker, lenient=True)[1]))


def test_a_reference_of_a_connector_needs_its_worker(tmp_path: Path) -> None:
    worker, file = tmp_path / "w.properties", tmp_path / "s.json"
    worker.write_text(kafkas_files.DISTRIBUTED)
    settings = {"source.cluster.sasl.jaas.config": "${env:X}", "source.cluster.security.protocol": "${env:Y}"}
    file.write_text(json.dumps({**CONNECTOR, **settings}, indent=1))
    alone = CliRunner().invoke(app, ["check", str(file), "--strict"])
    assert alone.exit_code == 0, alone.output
    note, counts = alone.stderr.splitlines()
    assert note.startswith(
        f"{file}:6: note: the value of ${{env:X}} is unknown, because config.providers is in the worker"
    )
    assert counts == "0 errors, 0 warnings, 1 note"
    both = CliRunner().invoke(app, ["check", str(worker), str(file)])
    assert both.exit_code == 1
    assert f"{file}:7: error: source.cluster.security.protocol: ${{env:Y}} stays as it is" in both.stderr
    # A key without effect may have any value.
    file.write_text(json.dumps({**CONNECTOR, "producer.sasl.jaas.config": "${env:X}"}, indent=1))
    assert CliRunner().invoke(app, ["check", str(worker), str(file)]).exit_code == 0


def test_a_worker_with_an_undeclared_provider_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "w.properties"
    file.write_text(f"{kafkas_files.DISTRIBUTED}client.id = ${{env:X}}\nplugin.path = ${{env:X}}\n")
    found = CliRunner().invoke(app, ["check", str(file)])
    (line,) = [line for line in found.stderr.splitlines() if ": error: " in line]
    assert "client.id: ${env:X} stays as it is, because config.providers lacks 'env'; write config.providers" in line
    assert found.exit_code == 1
    assert any("${env:X} stays" in line for line in said(load_worker(file, lenient=True).warnings))


RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: m}
spec:
  replicas: 1
  connectCluster: west
  clusters:
    - {alias: east, bootstrapServers: "east-1:9092"}
    - {alias: west, bootstrapServers: "west-1:9092"}
    - {alias: south, bootstrapServers: "south-1:9092"}
  mirrors:
    - sourceCluster: east
      targetCluster: west
      sourceConnector: &identity
        config: {replication.policy.class: org.apache.kafka.connect.mirror.IdentityReplicationPolicy}
      topicsPattern: orders
    - sourceCluster: south
      targetCluster: west
      sourceConnector: *identity
      topicsPattern: PATTERN
"""


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("stock.*", None),
        ("orders", "both write orders on west, because topic names are kept"),
        ("orders stock", "'orders stock' matches no topic"),
    ],
)
def test_a_resource_that_would_copy_too_little_is_an_error(tmp_path: Path, pattern: str, words: str | None) -> None:
    found = check(tmp_path, RESOURCE.replace("PATTERN", pattern), name="m.yaml")
    assert found.exit_code == (0 if words is None else 1), found.output
    assert (words or "") in found.stderr
    assert words is None or f"{tmp_path}/m.yaml:20: error: spec.mirrors[1].topicsPattern" in found.stderr
