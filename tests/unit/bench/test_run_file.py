"""The file of a run of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.reports.run_file import RunFile
from harness.errors import HarnessError

SETTINGS = {
    "machine": {"date": "2026-11-29", "cores": 2, "commit": "a"},
    "code": "c",
    "scale": 1.0,
    "systems": ("mm2",),
}


def test_a_later_start_has_the_items_of_the_earlier(tmp_path: Path) -> None:
    place = tmp_path / "work" / "last-run.json"
    first = RunFile.begin(place, SETTINGS)
    first.note("checks", {"mm2": "kept"})
    first.add({"name": "b", "figure": 1}, 2.04)
    first.add({"name": "a", "figure": 2}, 3.0)

    later = RunFile.resume(place, {**SETTINGS, "machine": {"date": "2026-11-30", "cores": 2, "commit": "b"}})
    assert later.names == ["b", "a"]
    later.add({"name": "c"}, 1)
    document = later.sort(["a", "b", "c"])

    assert [item["name"] for item in document["items"]] == ["a", "b", "c"]
    assert document["minutes"] == 6.0
    assert document["checks"] == {"mm2": "kept"}
    assert document["machine"]["date"] == "2026-11-29"


@pytest.mark.parametrize(
    ("key", "value"),
    [("scale", 0.5), ("code", "d"), ("systems", ("mm2", "franz")), ("machine", {"date": "2026-11-29", "cores": 4})],
)
def test_a_run_of_other_options_is_not_continued(tmp_path: Path, key: str, value: object) -> None:
    place = tmp_path / "last-run.json"
    RunFile.begin(place, SETTINGS).add({"name": "a"}, 1)
    before = place.read_bytes()

    with pytest.raises(HarnessError, match=f"a run with other {key}"):
        RunFile.resume(place, {**SETTINGS, key: value})
    assert place.read_bytes() == before


def test_a_run_that_never_began_is_named(tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"last-run\.json is missing"):
        RunFile.resume(tmp_path / "last-run.json", SETTINGS)


def test_a_start_that_measures_nothing_keeps_the_last_run(tmp_path: Path) -> None:
    place = tmp_path / "last-run.json"
    RunFile.begin(place, SETTINGS).add({"name": "a"}, 1)

    RunFile.begin(place, SETTINGS)
    assert [item["name"] for item in json.loads(place.read_text())["items"]] == ["a"]
