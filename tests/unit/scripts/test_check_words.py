"""The check of the English finds counted words in the texts of modules and pages, and budgets only fall."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.check_words import USER_WORDS, lowered, main, packages, problems, sentences, surplus, user_pages

MODULE = '''"""A reader says
what it reads."""
import re

ODD = re.compile("what is not where")
KIND = "what"
FLAG = b"what bytes are"


class Reader:
    limit = 1  # Never raised.
    """Bytes, `not` records; None without a limit."""

    # A second reader goes
    # on anew. It is to be
    # told apart.
    def read(self, log, others):
        log.warning("the partition has no "
                    f"leader {others['what where']}, such as\\nnobody")
        return 'SELECT one WHERE a IS NOT NULL', "a # stands here"
'''


def written(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def uses(root: Path, package: str) -> list[tuple[str, int]]:
    return [(use.word, use.line) for use in packages(root)[package].uses]


def test_words_are_counted_in_docstrings_comments_and_strings(tmp_path: Path) -> None:
    written(tmp_path, "src/twinlog/read/reader.py", MODULE)
    assert uses(tmp_path, "read") == [
        ("what", 2),
        ("not", 11),
        ("not", 12),
        ("go on", 14),
        ("anew", 15),
        ("is to be", 15),
        ("not", 18),
        ("such", 19),
        ("not", 19),
        ("one", 20),
        ("stand", 20),
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("It can't be read.", "not"),
        ("Ones are read.", "one"),
        ("It is another's.", "others"),
        ("It is for whoever asks.", "somebody"),
        ("They are going\non.", "go on"),
        ("| a | they are to be read |", "is to be"),
        ("- It stands there.", "stand"),
        ("# Where it is", "where"),
    ],
)
def test_forms_of_words_are_counted(tmp_path: Path, text: str, word: str) -> None:
    written(tmp_path, "docs/page.md", text)
    assert [found for found, _ in uses(tmp_path, "docs")] == [word]


def test_code_links_and_generated_pages_are_left_out(tmp_path: Path) -> None:
    written(tmp_path, "docs/page.md", "Whatever `not\nwhat` is [this](what.md#where).\n```sh\necho what\n```\nWhat?\n")
    written(tmp_path, "docs/configuration.md", "what\n")
    written(tmp_path, "docs/strimzi.md", "what\n")
    assert uses(tmp_path, "docs") == [("what", 6)]


def test_packages_are_the_folders_of_the_source(tmp_path: Path) -> None:
    for name in ("src/twinlog/clock.py", "src/twinlog/read/deep/a.py", "docs/page.md"):
        written(tmp_path, name, '"""A text."""\n')
    assert list(packages(tmp_path)) == ["docs", "read", "twinlog"]


def page(root: Path, count: int, words: int = 1000) -> None:
    written(root, "docs/page.md", "what\n" * count + "word\n" * (words - count))


def test_a_package_fails_two_percent_above_its_budget(tmp_path: Path) -> None:
    page(tmp_path, 51)
    written(tmp_path, "docs/worse.md", "")
    assert list(problems(packages(tmp_path), {"docs": {"what": 50.0}})) == []
    page(tmp_path, 52)
    (problem,) = problems(packages(tmp_path), {"docs": {"what": 50.0}})
    assert problem.startswith("docs: `what` 52.00 times in 1,000 words, and the budget is 50.00: 52 uses, 1 too many\n")
    assert "\n  docs/page.md: line 1, 2, 3, " in problem
    assert "--list docs" in problem


def test_the_target_is_the_budget_of_a_package_without_a_stored_rate(tmp_path: Path) -> None:
    page(tmp_path, 1)
    assert list(problems(packages(tmp_path), {})) == []
    page(tmp_path, 2)
    assert len(list(problems(packages(tmp_path), {}))) == 1
    assert list(problems(packages(tmp_path), {"docs": {"what": 2.0}})) == []


def test_a_single_use_in_a_small_package_is_accepted(tmp_path: Path) -> None:
    page(tmp_path, 1, words=10)
    assert list(problems(packages(tmp_path), {})) == []


def test_stored_rates_only_fall(tmp_path: Path) -> None:
    page(tmp_path, 20)
    present = packages(tmp_path)
    assert lowered(present, None) == {"docs": {"what": 20.0}}
    assert lowered(present, {"docs": {"what": 30.0}, "gone": {"what": 9.0}}) == {"docs": {"what": 20.0}}
    assert lowered(present, {"docs": {"what": 10.0}}) == {"docs": {"what": 10.0}}
    assert lowered(present, {}) == {}
    page(tmp_path, 1)
    assert lowered(packages(tmp_path), {"docs": {"what": 10.0}}) == {}


def test_the_file_of_budgets_is_written_on_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    budgets = tmp_path / "words.json"
    page(tmp_path, 20)
    assert main([], tmp_path, budgets) == 1
    assert not budgets.exists()
    assert main(["--write"], tmp_path, budgets) == 0
    page(tmp_path, 30)
    assert main(["--write"], tmp_path, budgets) == 1
    assert json.loads(budgets.read_text()) == {"docs": {"what": 20.0}}
    page(tmp_path, 10)
    assert main(["--write"], tmp_path, budgets) == 0
    assert json.loads(budgets.read_text()) == {"docs": {"what": 10.0}}
    capsys.readouterr()


def test_sentences_with_counted_words_are_listed_with_their_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(tmp_path, "src/twinlog/read/a.py", '"""A reader.\n\nIt reads what\nis not `what`. It ends.\n"""\n')
    assert list(sentences(packages(tmp_path)["read"])) == [
        "src/twinlog/read/a.py:3: what, not: It reads what is not `what`."
    ]
    assert main(["--list", "read"], tmp_path) == 0
    assert main(["--list", "write"], tmp_path) == 1
    assert "write is no package; the packages: read" in capsys.readouterr().out


def test_pages_for_users_are_counted_without_their_generated_parts(tmp_path: Path) -> None:
    written(tmp_path, "README.md", "Two words.\n<!-- bench:begin -->\n| a | b |\n<!-- bench:end -->\nA third.\n")
    written(
        tmp_path,
        "docs/page.md",
        "# Rights\n\n<!-- rights source -->\n| a |\n<!-- end of rights -->\n\n```sh\necho a\n```\n",
    )
    written(tmp_path, "docs/keys.md", "# Keys\n\n<!-- Generated from the table: make reference -->\n\nA key.\n")
    written(tmp_path, "docs/guides/way.md", "A way.\n")
    written(tmp_path, "docs/design/glossary.md", "A word.\n")
    assert user_pages(tmp_path) == {"README.md": 4, "docs/page.md": 6, "docs/guides/way.md": 2}


def test_the_pages_for_users_have_a_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = {"a.md": 1500, "b.md": 10, "c.md": 20, "d.md": 30}
    assert list(surplus(pages, 1560, 4)) == []
    (problem,) = surplus(pages, 1560, 3)
    assert problem == "4 pages for users, and the budget is 3. Join short pages: b.md, c.md, d.md"
    (problem,) = surplus(pages, 1500, 4)
    assert problem.startswith("The 4 pages for users have 1,560 words, and the budget is 1,500: 60 too many\n")
    assert "longest: a.md 1,500, d.md 30, c.md 20\n" in problem
    written(tmp_path, "docs/page.md", "word " * USER_WORDS)
    assert main(["--pages"], tmp_path) == 0
    assert main([], tmp_path) == 0
    written(tmp_path, "README.md", "word")
    assert main([], tmp_path) == 1
    assert "30,001 words" in capsys.readouterr().out
