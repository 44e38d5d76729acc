"""What to log in with comes out of a JAAS line, and a wrong line is refused without repeating it."""

from __future__ import annotations

import pytest

from twinlog.config.jaas import JaasError, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


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
        ('com.example.OtherModule required username="u" password="hush";', "none of PlainLoginModule"),
        (f'{PLAIN} username="u" password="hush";', "'required'"),
        (f'{PLAIN} required username="u" password="hush;', "quote"),
        (f'{PLAIN} required username="u";', "password is missing"),
        (f'{SCRAM} required username="u" password="hush" tokenauth="true";', "delegation token"),
        (f'{PLAIN} required password="hush";', "username is missing"),
        (f'{PLAIN} required username "u" password "hush";', "name=value"),
        (f'{PLAIN} required username="u" password="hush" x;', "name=value"),
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
