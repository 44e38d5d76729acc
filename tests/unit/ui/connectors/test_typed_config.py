"""The text of a connector's form: read in each form, with secrets that never leave, not even from half a text."""

from __future__ import annotations

import json

import pytest

from twinlog.ui.pages.connectors.typed_config import DROPPED, TypedConfig, config_text

JAAS = "source.cluster.sasl.jaas.config"
SECRET = "s3cr3t-Pa55word"
PEM = "-----BEGIN PRIVATE KEY-----\nS3CR3Tabc/+==\nS3CR3Tdef==\n-----END PRIVATE KEY-----"


def read(text: str, name: str = "mine", **known: str) -> TypedConfig:
    return TypedConfig.read(text, name, {key.replace("_", "."): value for key, value in known.items()})


def test_lines_and_json_are_complete_and_their_texts_hide_secrets() -> None:
    lines = read(f"# first\n{JAAS} = {SECRET}\ntopics = a\\\\.b\n")
    given = {JAAS: SECRET, "topics": "a\\.b"}
    written = read(json.dumps({"name": "mine", "config": given, "initial_state": "paused"}), "")
    for typed in (lines, written):
        assert typed.problems == ()
        assert typed.config == {**given, "name": "mine"}
        assert typed.secrets == {JAAS: SECRET}
    assert lines.text == f"{JAAS} = (hidden)\ntopics = a\\\\.b\n"
    assert json.loads(written.text) == {JAAS: "(hidden)", "topics": "a\\.b"}
    assert (lines.initial_state, written.initial_state) == (None, "PAUSED")


def test_a_text_that_came_back_is_complete_with_the_kept_secrets() -> None:
    first = read(f"{JAAS} = {SECRET}\nx = 1\n")
    again = TypedConfig.read(first.text, "mine", first.secrets)
    assert again.config == first.config
    (problem,) = read(first.text).problems
    assert (problem.key, problem.text) == (JAAS, "its value is hidden, and the console lacks it")
    assert SECRET not in repr(first)


def test_a_reference_is_shown_and_a_password_inside_a_value_is_hidden() -> None:
    text = config_text({"name": "mine", "a.password": "${file:/x:y}", "url": "http://u:pw@h/", "gone": None})
    assert text == "a.password = ${file:/x:y}\nurl = (hidden)\ngone = \n"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"a": "b", JAAS: SECRET, "ssl.keystore.key": "S3CR3T", "topics": "t"}),
        json.dumps({"topics": "t", JAAS: SECRET, "url": f"http://u:{SECRET}@h/"}, indent=2),
        f'{{\n"topics": "t",\n"source.cluster.ssl.keystore.key": "{PEM}",\n"x.y": 1\n}}',
        f"topics = t\nsource.cluster.ssl.keystore.key = {PEM}\nx.y = \\u12\n",
        f'{JAAS} = a.B required \\\n username="u" \\\n password="{SECRET}";\nbroken = \\u12\n',
    ],
)
def test_no_part_of_a_text_shows_a_secret(text: str) -> None:
    """A text that breaks off at any character, read or not, and the words about its mistakes."""
    for end in range(len(text) + 1):
        typed = read(text[:end])
        shown = typed.text + "".join(f"{one.key} {one.sentence}" for one in typed.problems)
        assert "s3cr3t" not in shown.lower(), text[:end]


def test_an_unreadable_text_keeps_its_lines_but_for_secrets() -> None:
    text = f'{{\n"topics": "t",\n"ssl.keystore.key": "{PEM}",\n"tasks.max": 1,\n  "{JAAS}": "(hidden)"\n'
    typed = read(text)
    lines = typed.text.split("\n")
    assert lines[:3] == ["{", '"topics": "t",', f'"ssl.keystore.key": "{DROPPED}",']
    assert lines[3:6] == ["", "", ""]
    assert lines[6:] == ['"tasks.max": 1,', f'  "{JAAS}": "(hidden)"', ""]
    assert typed.config == {}
    assert typed.problems


def test_a_dropped_secret_is_asked_for_though_the_worker_has_an_earlier_value() -> None:
    """Otherwise the earlier value would silently replace the value that the user typed."""
    text = f"topics = \\u1\n{JAAS} = {SECRET}\n"
    dropped = read(text, **{JAAS.replace(".", "_"): "earlier"}).text
    mended = dropped.replace("\\u1", "t")
    for _ in range(2):
        typed = read(mended, **{JAAS.replace(".", "_"): "earlier"})
        assert [one.key for one in typed.problems] == [JAAS]
        mended = typed.text


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ('{"a": "1" "b": "2"}', "", "a comma is missing"),
        ("[" * 100_000, "", "nested too deep"),
        ('["a"]', "", "a JSON list"),
        ("name = other", "name", "'other'"),
        ('{"name": "other", "config": {}}', "name", "'other'"),
        ('{"a": null}', "a", "null or nested"),
        ('{"a": "\\ud83d"}', "a", "half a character"),
        (f"ssl.keystore.key = {PEM}", "ssl.keystore.key", "ends after its first line"),
        ("a.password = pa\\users", "", "a broken \\u escape"),
    ],
)
def test_a_mistake_has_its_key_and_its_words(text: str, key: str, words: str) -> None:
    (problem,) = read(text).problems
    assert problem.key == key
    assert words in problem.sentence


def test_the_words_of_a_worker_lose_secrets_and_keep_words_that_contain_them() -> None:
    typed = read(f"a.password = in\n{JAAS} = {SECRET}; in\n")
    found = typed.hide_secrets_in(f"Invalid value in for a, and {SECRET}; in for b")
    assert found == "Invalid value (hidden) for a, and (hidden) for b"
