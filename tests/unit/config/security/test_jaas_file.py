"""JAAS files, and the option of a JVM that names one."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.config.security.jaas import JaasError, named_file, parse_jaas_file

SEED = """KafkaConnect {
    org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
    file="/opt/kafka/custom-config/restapi-users.txt";
};
"""


def test_the_file_of_a_connect_worker() -> None:
    (entry,) = parse_jaas_file(SEED)["KafkaConnect"]
    assert entry.simple_name == "PropertyFileLoginModule"
    assert (entry.flag, entry.options) == ("required", {"file": "/opt/kafka/custom-config/restapi-users.txt"})


def test_sections_modules_comments_and_quotes() -> None:
    sections = parse_jaas_file(
        """// of the broker
        KafkaServer{a.B optional; /* two; } */ c.D REQUIRED x="1;2 \\" }" y=/p // no
        ; };
        "quoted name" { };"""
    )
    assert [entry.module for entry in sections["KafkaServer"]] == ["a.B", "c.D"]
    assert dict(sections["KafkaServer"][1].options) == {"x": '1;2 " }', "y": "/p"}
    assert sections["quoted name"] == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("KafkaConnect", "'{' after KafkaConnect"),
        ("KafkaConnect {", "login module in section KafkaConnect"),
        ("KafkaConnect { a.B required; }", "';' after section KafkaConnect"),
        ("KafkaConnect { a.B file=x; };", "'required' is missing after a.B"),
        ("KafkaConnect { a.B; };", "'required' after a.B"),
        ("KafkaConnect { a.B required password; };", "'='"),
        ('KafkaConnect { a.B required password="s3cret }; };', "unclosed"),
        ("KafkaConnect { a.B required password=; };", "value of password"),
        ("A { }; A { };", "twice"),
        ("/* KafkaConnect", "unclosed"),
    ],
)
def test_what_is_wrong_is_named_and_no_value(text: str, says: str) -> None:
    with pytest.raises(JaasError) as wrong:
        parse_jaas_file(text)
    assert says in str(wrong.value)
    assert "s3cret" not in str(wrong.value)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ("", None),
        ("-Xmx1G -Dother=/x", None),
        ("-Djava.security.auth.login.config=/a/b.conf", "/a/b.conf"),
        ("-Djava.security.auth.login.config=/a -Dx=y -Djava.security.auth.login.config==/b", "/b"),
        ('-Djava.security.auth.login.config="/with blank/b" -Dx', "/with blank/b"),
        ("-Djava.security.auth.login.config=file:///a%20b/c", "/a b/c"),
        ("-Djava.security.auth.login.config=file:/a/c", "/a/c"),
    ],
)
def test_the_file_that_options_name(options: str, path: str | None) -> None:
    assert named_file(options) == (path and Path(path))


def test_options_with_an_open_quote_name_nothing() -> None:
    with pytest.raises(JaasError):
        named_file('-Djava.security.auth.login.config="/a')
