"""The check of the structure finds large files, full folders, small modules and names with two meanings."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_structure import LIMITS, Structure, main, problems

STRICT = {**LIMITS, "small modules": 0, "class names": 0, "method names": 0}


def found(root: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        path = root / "src" / "twinlog" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return list(problems(Structure(root), STRICT))


@pytest.mark.parametrize(
    "imported",
    [
        "from twinlog.read.batch import Batch\n",
        "from twinlog.read import batch\n",
        "import twinlog.read.batch\n",
        "from .batch import Batch\n",
        "from . import batch\n",
        "def scan():\n    try:\n        from twinlog.read.batch import Batch\n    finally:\n        pass\n",
    ],
)
def test_a_small_module_with_a_single_importer_in_its_folder_is_reported(tmp_path: Path, imported: str) -> None:
    (problem,) = found(tmp_path, {"read/batch.py": "class Batch: ...\n", "read/scan.py": imported})
    assert problem.startswith("small modules: 1, and the limit is 0:\n")
    assert "  src/twinlog/read/batch.py: only scan.py imports it\n" in problem


@pytest.mark.parametrize(
    "files",
    [
        {"read/batch.py": "A = 1\n" * 80, "read/scan.py": "from twinlog.read.batch import A\n"},
        {"read/batch.py": "A = 1\n", "write/scan.py": "from twinlog.read.batch import A\n"},
        {"read/batch.py": "A = 1\n", "read/a.py": "from . import batch\n", "read/b.py": "from . import batch\n"},
        {"read/__init__.py": "A = 1\n", "read/scan.py": "from twinlog.read import A\n"},
        {"read/batch.py": "A = 1\n", "read/scan.py": '"""import twinlog.read.batch"""\n'},
    ],
)
def test_other_modules_are_accepted(tmp_path: Path, files: dict[str, str]) -> None:
    assert found(tmp_path, files) == []


def test_a_folder_has_at_most_25_entries_and_a_file_600_lines(tmp_path: Path) -> None:
    left = {"read/__pycache__/m.pyc": "", "read/.hidden": "", "read/moved/__pycache__/m.pyc": ""}
    files = {f"read/m{number}.py": "" for number in range(23)} | {"read/__init__.py": "A = 1\n" * 600}
    assert found(tmp_path, files | {"read/deeper/m.py": "", **left}) == []
    assert found(tmp_path, {"read/m.py": "A = 1\n" * 601}) == [
        "src/twinlog/read/m.py has 601 lines, and the limit is 600: divide the file by its concepts",
        "src/twinlog/read has 26 entries, and the limit is 25: give a concept a folder of its own",
    ]


@pytest.mark.parametrize("kind", ["t{}.html", "t{}/m.py"])
def test_files_of_any_kind_and_folders_are_entries(tmp_path: Path, kind: str) -> None:
    assert found(tmp_path, {f"read/{kind.format(number)}": "" for number in range(26)}) == [
        "src/twinlog/read has 26 entries, and the limit is 25: give a concept a folder of its own"
    ]


def test_folders_of_tests_are_counted_and_a_list_has_any_number(tmp_path: Path) -> None:
    for folder in ("tests/unit/read", "tests/unit/config/cases", "conformance/golden/1"):
        (tmp_path / folder).mkdir(parents=True)
        for number in range(26):
            (tmp_path / folder / f"{number}.txt").write_text("")
    assert found(tmp_path, {}) == [
        "tests/unit/read has 26 entries, and the limit is 25: give a concept a folder of its own"
    ]


def test_a_class_name_of_two_classes_is_reported(tmp_path: Path) -> None:
    (problem,) = found(tmp_path, {"a/m.py": "class Batch: ...\n", "b/m.py": "def f():\n    class Batch: ...\n"})
    assert problem.startswith("class names: 1, and the limit is 0:\n")
    assert "  Batch: src/twinlog/a/m.py, src/twinlog/b/m.py\n" in problem


def test_vague_methods_are_reported(tmp_path: Path) -> None:
    text = "class Batch:\n    def take(self): ...\n    async def look(self): ...\n    def taken(self): ...\n"
    (problem,) = found(tmp_path, {"m.py": text + "def take(): ...\n"})
    assert problem.startswith("method names: 2, and the limit is 0:\n")
    assert "  src/twinlog/m.py: Batch.take\n  src/twinlog/m.py: Batch.look\n" in problem


def test_a_ratchet_fails_above_its_limit_and_asks_for_a_lower_limit_below(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found(tmp_path, {"a.py": "class Batch: ...\n", "b.py": "class Batch: ...\n"})
    assert main([], tmp_path, STRICT) == 1
    assert main([], tmp_path, {**STRICT, "class names": 1}) == 0
    capsys.readouterr()
    assert main([], tmp_path, {**STRICT, "class names": 2}) == 0
    assert "class names: 1 now; lower the limit of 2" in capsys.readouterr().out


def test_the_table_has_the_figures_of_the_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {
        "a.py": "from twinlog import b\nclass Batch: ...\n",
        "b.py": "from twinlog.deep import c\nclass Batch: ...\nA = 1\n",
        "deep/c.py": "import os\n",
        "deep/d.py": "from twinlog.deep.c import os\n",
    }
    found(tmp_path, files)
    (tmp_path / "docs" / "design").mkdir(parents=True)
    (tmp_path / "docs" / "design" / "glossary.md").write_text(
        "| word | |\n|---|---|\n| **flow** | a |\n", encoding="utf-8"
    )
    assert main(["--table"], tmp_path) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "| files | 4 |",
        "| lines | 7 |",
        "| median lines of a file | 2 |",
        "| folders with more than 25 entries | 0 |",
        "| small modules with a single importer | 1 |",
        "| unique class names | 1 of 2 |",
        "| modules of the longest import chain | 3 |",
        "| rows of the glossary | 1 |",
    ]
