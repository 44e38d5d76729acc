"""What to log in with comes out of a JAAS line, and a wrong line is refused without repeating it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinlog.config.security.jaas import JaasError, escaped, parse_entry, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
RECORDED = Path(__file__).parents[3] / "recorded" / "jaas.jsonl"
ROWS = [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


@pytest.mark.parametrize(
    ("line", "login"),
    [
        (f'{PLAIN} required username="u" password="p";', ("PLAIN", "u", "p")),
        (f'  {SCRAM}\n required\n username="u"\n password="p" ;  ', ("SCRAM", "u", "p")),
        (f"{PLAIN} required username='u' password=p;", ("PLAIN", "u", "p")),
        (f'{PLAIN} REQUIRED password="a\\"b\\\\c=;" username="u x";', ("PLAIN", "u x", 'a"b\\c=;')),
        (f'{SCRAM} required username="u" password="" tokenauth="false";', ("SCRAM", "u", "")),
    ],
)
def test_accepted(line: str, login: tuple[str, str, str]) -> None:
    parsed = parse_jaas(line)
    assert (parsed.family, parsed.username, parsed.password) == login


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "semicolon"),
        (f'{PLAIN} required username="u" password="hush"', "semicolon"),
        ('com.example.OtherModule required username="u" password="hush";', "differs from PlainLoginModule"),
        (f'{PLAIN} username="u" password="hush";', "'required'"),
        (f'{PLAIN} required username="u" password="hush;', "quote"),
        (f'{PLAIN} required username="u";', "password is missing"),
        (f'{SCRAM} required username="u" password="hush" tokenauth="true";', "delegation token"),
        (f'{PLAIN} required password="hush";', "username is missing"),
        (f'{PLAIN} required username "u" password "hush";', "name=value"),
        (f'{PLAIN} required username="u" password="hush" x;', "name=value"),
        (f"{PLAIN} required username=u password=hush/1;", "a '/' outside of quotes begins a comment"),
        (f"{PLAIN} required username=u password=hush@1;", "only a plain word is free of quotes"),
        (f"{PLAIN} required username=u password=1hush;", "only a plain word is free of quotes"),
        (
            f'{PLAIN} required username="u" password="hush"; {PLAIN} required username="u" password="p";',
            "a single login module",
        ),
        (f'{PLAIN} required username="u" password="hush" ";"', "name=value"),
    ],
)
def test_refused(line: str, reason: str) -> None:
    with pytest.raises(JaasError) as caught:
        parse_jaas(line)
    assert reason in str(caught.value)
    assert "hush" not in str(caught.value)


def test_a_module_for_tokens_needs_no_user() -> None:
    parsed = parse_jaas("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required scope='a b';")
    assert (parsed.family, dict(parsed.options)) == ("OAUTHBEARER", {"scope": "a b"})


def test_the_password_does_not_show() -> None:
    assert "hush" not in repr(parse_jaas(f'{PLAIN} required username="u" password="hush";'))


@pytest.mark.parametrize("row", ROWS, ids=range(len(ROWS)))
def test_a_line_is_read_as_kafka_reads_it(row: Mapping[str, Any]) -> None:
    if "module" not in row:
        with pytest.raises(JaasError):
            parse_entry(row["line"])
        return
    entry = parse_entry(row["line"])
    assert (entry.module, entry.flag, dict(entry.options)) == (row["module"], row["flag"], row["options"])


@given(st.text())
def test_every_password_can_be_written_in_quotes(password: str) -> None:
    assert parse_jaas(f'{PLAIN} required username="u" password="{escaped(password)}";').password == password


@given(st.text(alphabet=st.sampled_from("\\\"'/*=;.-019aM \n\r\t\x80\x85ä€")))
def test_no_line_breaks_its_reading(line: str) -> None:
    for text in (line, f"M required a={line};", f'M required a="{line}";'):
        with suppress(JaasError):
            assert parse_entry(text).flag == "required"
