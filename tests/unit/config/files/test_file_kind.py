"""A file of another form is named as what it is, with what runs it, instead of each of its lines as unknown key."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from twinlog.config import load
from twinlog.config.connector import read_connector_file
from twinlog.config.file_kind import FileKind, known_kind
from twinlog.config.flow.clients import load_client
from twinlog.config.worker import load_worker
from twinlog.errors import ConfigError

CONVERTERS = "".join(f"{one}.converter = a.B\n" for one in ("key", "value"))
FILES = {
    FileKind.MIRROR: "clusters = a, b\n",
    FileKind.RESOURCE: "apiVersion: kafka.strimzi.io/v1\nkind: KafkaMirrorMaker2\n",
    FileKind.WORKER: f"bootstrap.servers = a:1\ngroup.id = g\n{CONVERTERS}",
    FileKind.CONNECTOR: "name = c\nconnector.class = MirrorSourceConnector\n",
}
READERS: dict[FileKind, Callable[[Path], object]] = {
    FileKind.MIRROR: load,
    FileKind.WORKER: load_worker,
    FileKind.CONNECTOR: read_connector_file,
    FileKind.CLIENT: load_client,
}


def write(folder: Path, text: str) -> Path:
    file = folder / "given"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((text, kind) for kind, text in FILES.items()),
        ("a->b.enabled = true\ngroup.id = g\nkey.converter = x\n", FileKind.MIRROR),
        ("offset.storage.file.filename = x\n", FileKind.WORKER),
        ('{"apiVersion": "kafka.strimzi.io/v1",\n"kind": "KafkaMirrorMaker2"}', FileKind.CONNECTOR),
        ('{\n"apiVersion": "kafka.strimzi.io/v1",\n"kind": "KafkaMirrorMaker2"}', FileKind.RESOURCE),
        ('\ufeff {"name": "c"', FileKind.CONNECTOR),
        ("[]", FileKind.CONNECTOR),
        ("bootstrap.servers = a:1\n", None),
        ("", None),
    ],
)
def test_a_file_is_known_by_what_stands_in_it(tmp_path: Path, text: str, kind: FileKind | None) -> None:
    assert known_kind(write(tmp_path, text)) is kind


def test_what_is_not_there_is_of_no_kind(tmp_path: Path) -> None:
    assert known_kind(tmp_path / "none") is None
    assert known_kind(tmp_path) is None


@pytest.mark.parametrize("wanted", READERS)
@pytest.mark.parametrize("given", FILES)
def test_another_file_is_one_problem_with_the_way_out(tmp_path: Path, wanted: FileKind, given: FileKind) -> None:
    if wanted is given or (wanted, given) == (FileKind.MIRROR, FileKind.RESOURCE):
        return
    file = write(tmp_path, FILES[given])
    with pytest.raises(ConfigError) as caught:
        READERS[wanted](file)
    (problem,) = caught.value.problems
    assert problem.text.startswith("this is ")
    assert str(file) in problem.text
    assert not caught.value.warnings


@pytest.mark.parametrize("reader", READERS.values())
def test_a_key_store_is_no_text(tmp_path: Path, reader: Callable[[Path], object]) -> None:
    file = tmp_path / "given"
    file.write_bytes(b"0\x82\x04\0\n=\n")
    with pytest.raises(ConfigError, match=r"given: binary: it contains NUL bytes; give a text file \[TW-FILE-23\]$"):
        reader(file)
