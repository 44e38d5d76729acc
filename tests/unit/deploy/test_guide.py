"""Pages whose commands are run: what is a step, and when it did as the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.containers.guide import Command, File, GuideShell, missing_line, read_guide
from harness.errors import HarnessError

PAGE = """\
# A page

```properties title="a.properties"
clusters = east
east = east:9092
```

```console
$ cat a.properties \\
    | head -2
clusters = east
...
east = east:9092
$ false
$ echo $?
1
```

```console
$ sleep 60 > sleep.log 2>&1 &
$ kill %1
```
"""


def test_steps_are_files_and_commands() -> None:
    steps = read_guide(PAGE)
    assert steps[0] == File("a.properties", "clusters = east\neast = east:9092\n")
    assert steps[1] == Command(9, "cat a.properties \\\n    | head -2", ["clusters = east", "...", "east = east:9092"])
    assert [step.text for step in steps[2:] if isinstance(step, Command)] == [
        "false",
        "echo $?",
        "sleep 60 > sleep.log 2>&1 &",
        "kill %1",
    ]
    assert isinstance(steps[2], Command)
    assert steps[2].may_fail


@pytest.mark.parametrize(
    ("shown", "missing"),
    [
        (["a 7 records", "b"], None),
        (["a   7 records"], None),
        (["a 12 records"], "a 12 records"),
        (["b", "a 7 records"], "a 7 records"),
        (["c"], "c"),
        (["...", ""], None),
    ],
)
def test_lines_are_printed_in_their_order(shown: list[str], missing: str | None) -> None:
    assert missing_line(shown, "a 7  records\nx\nb\n") == missing


def test_a_page_is_followed(tmp_path: Path) -> None:
    with GuideShell(tmp_path, {"east:9092": "127.0.0.1:5"}) as shell:
        shell.follow(read_guide(PAGE))
    assert "127.0.0.1:5" in (tmp_path / "a.properties").read_text()


@pytest.mark.parametrize("command", ["false", "echo other\nshown", "kill $$"])
def test_what_does_not_do_as_the_page_says_is_named(tmp_path: Path, command: str) -> None:
    with GuideShell(tmp_path, {}) as shell, pytest.raises(HarnessError, match=r"line 2|ended the shell"):
        shell.follow(read_guide(f"```console\n$ {command}\n```\n"))
