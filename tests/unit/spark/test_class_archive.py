"""The class archive of `twinlog warm-up`: a single maker at a time, and the files that are left."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from twinlog.errors import TwinlogError
from twinlog.process.jvm import UNUSED_S, archive_file
from twinlog.spark import class_archive

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive is looked for."""
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_of_several_processes_one_makes_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def record(fresh: Path, _: threading.Event) -> bool:
        begun.set()
        assert go_on.wait(WAIT_S)
        fresh.write_text("archive")
        return True

    monkeypatch.setattr(class_archive, "_record", record)
    first = threading.Thread(target=class_archive.warm_up)
    first.start()
    assert begun.wait(WAIT_S)
    with pytest.raises(TwinlogError, match="another process makes"):
        class_archive.warm_up()
    assert not archive_file().exists()
    go_on.set()
    first.join()
    assert archive_file().read_text() == "archive"


def test_what_was_not_finished_is_not_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def record(fresh: Path, _: threading.Event) -> bool:
        fresh.write_text("half")
        return False

    monkeypatch.setattr(class_archive, "_record", record)
    with pytest.raises(TwinlogError, match="did not leave"):
        class_archive.warm_up()
    assert [path.suffix for path in folder.iterdir()] == [".lock"]


def test_archives_of_earlier_versions_go_after_a_month(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    for name, unused_s in (
        ("spark-1.jsa", UNUSED_S + 60),
        ("spark-2.jsa", UNUSED_S - 3600),
        ("other.jsa", 2 * UNUSED_S),
    ):
        (folder / name).touch()
        os.utime(folder / name, (0, time.time() - unused_s))
    monkeypatch.setattr(class_archive, "_record", lambda fresh, _: fresh.write_text("x") > 0)
    made = class_archive.warm_up()
    left = {path.name for path in folder.iterdir() if path.suffix == ".jsa"}
    assert left == {made.name, "spark-2.jsa", "other.jsa"}
