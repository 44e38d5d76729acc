"""The class archive that a process has made by itself: when, when not, and what is left when it ends early."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.wait import wait_for
from twinlog.errors import TwinlogError
from twinlog.jvm import UNUSED_S, archive_file
from twinlog.spark import class_archive
from twinlog.spark.class_archive import ArchiveJob

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive is looked for; there is memory for it."""
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "_free_memory", lambda: None)
    return tmp_path / "cache"


def made_by(code: str, *, wanted: bool = True, after_s: float = 0.0) -> ArchiveJob:
    return ArchiveJob(wanted=wanted, after_s=after_s, command=(sys.executable, "-c", code))


def attend(one: ArchiveJob, times: int = 3) -> None:
    for _ in range(times):
        one.poll_archive(spark_runs=True)


def ended(one: ArchiveJob) -> bool:
    one.poll_archive(spark_runs=True)
    return one._process is None


def test_it_is_made_once_after_spark_has_run_for_a_while(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "twinlog")
    code = f"import os; open({str(folder / 'made')!r}, 'a').write('x')"
    early = made_by(code, after_s=1000)
    attend(early)
    one = made_by(code)
    one.poll_archive(spark_runs=False)
    assert not folder.exists()
    attend(one)
    wait_for(lambda: ended(one), WAIT_S, "it is made")
    attend(one)
    assert (folder / "made").read_text() == "x"
    assert "later starts take some seconds less" in caplog.text


@pytest.mark.parametrize("why", ["off", "there", "read-only", "memory"])
def test_it_is_left_alone(folder: Path, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    if why == "there":
        archive_file().touch()
    elif why == "read-only":
        monkeypatch.setattr(os, "access", lambda *_: False)
    elif why == "memory":
        monkeypatch.setattr(class_archive, "_free_memory", lambda: 1_000_000_000)
    before = sorted(folder.iterdir())
    one = made_by(f"open({str(folder / 'made')!r}, 'w')", wanted=why != "off")
    attend(one)
    assert one._process is None
    assert sorted(folder.iterdir()) == before


def test_a_directory_that_cannot_be_made_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "twinlog")
    (tmp_path / "file").touch()
    monkeypatch.setenv("TWINLOG_CACHE", str(tmp_path / "file" / "below"))
    attend(made_by("raise SystemExit(9)"))
    assert "set TWINLOG_CACHE" in caplog.text


def test_a_failure_is_reported_and_not_retried(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "twinlog")
    one = made_by("raise SystemExit('no java here')")
    attend(one)
    wait_for(lambda: ended(one), WAIT_S, "it fails")
    attend(one)
    assert caplog.text.count("nothing is prepared for later starts: no java here") == 1


def test_the_end_of_the_process_ends_it(folder: Path) -> None:
    one = made_by("import time; time.sleep(1000)")
    attend(one)
    process = one._process
    assert process is not None
    one.stop()
    assert process.poll() is not None


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
