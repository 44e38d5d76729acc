"""A connector's file is properties, or JSON in one of two forms."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.config.connector import ConnectorFile, read_connector_file
from twinlog.errors import ConfigError


def read(folder: Path, text: str) -> ConnectorFile:
    file = folder / "connector"
    file.write_text(text)
    return read_connector_file(file)


@pytest.mark.parametrize(
    "text",
    [
        "# a connector\nname = c\ntasks.max: 3\nenabled true\n",
        '{"name": "c", "tasks.max": 3, "enabled": true}',
        ' {"name": "c", "config": {"tasks.max": "3", "enabled": "true"}}',
        '{"name": "c", "config": {"name": "c", "tasks.max": "3", "enabled": true}}',
    ],
)
def test_every_form_comes_to_the_same(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text) == ConnectorFile("c", {"name": "c", "tasks.max": "3", "enabled": "true"})


@pytest.mark.parametrize("text", ["name = c\r\ntasks.max = 3\r\n", '{"name": "c",\r\n "tasks.max": 3}'])
def test_what_windows_writes(tmp_path: Path, text: str) -> None:
    (tmp_path / "connector").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_connector_file(tmp_path / "connector").config == {"name": "c", "tasks.max": "3"}


def test_a_state_to_begin_with(tmp_path: Path) -> None:
    assert read(tmp_path, '{"name": "c", "config": {}, "initial_state": "STOPPED"}').initial_state == "STOPPED"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tasks.max = 3\n", "name: missing"),
        ('{"tasks.max": 3}', "name: missing"),
        ('{"name": "c", "topics": ["a"]}', "topics: null or nested"),
        ('{"name": "c", "config": {"topics": null}}', "topics: null or nested"),
        (
            '{"name":\n "c" "topics": "a"}',
            r"connector:2: broken JSON: a comma is missing at the end of this line; add it",
        ),
        ('[{"name": "c"}]', "a JSON list"),
        ("[" * 100_000, r"connector: the JSON is nested too deep; write flat JSON"),
        ('{"name": ' + '{"a": ' * 100_000, "nested too deep"),
    ],
)
def test_what_is_no_connector(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give a readable file"):
        read_connector_file(tmp_path / "none")
