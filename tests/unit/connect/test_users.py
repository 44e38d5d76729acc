"""Who may use the REST API: files, passwords plain and hashed, and what is wrong with them."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest

from twinlog.connect.rest.users import Credentials, Users, credentials, hashed
from twinlog.connect.users import read_users
from twinlog.errors import ConfigError

BCRYPT = "$2b$04$FBIe3/8S2I8g16WqOdjsyeWDMxQNgFFCggGTfqW1TcpDyAynV7mx."
"""Of `secret`, at the lowest cost."""


def scrypt(password: str) -> str:
    salt = b"0123456789abcdef"
    found = hashlib.scrypt(password.encode(), salt=salt, n=16, r=8, p=1, dklen=32)
    return "$scrypt$ln=4,r=8,p=1${}${}".format(*(base64.b64encode(part).decode().rstrip("=") for part in (salt, found)))


def basic(text: str | bytes) -> str:
    return "Basic " + base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()


def good(users: Users, user: str, password: str) -> bool:
    known = users.known(Credentials(user, password))
    return users.compare(Credentials(user, password)) if known is None else known


@pytest.mark.parametrize(
    ("header", "login"),
    [
        (basic("u:p"), ("u", "p")),
        ("bAsIc " + basic("u:p:q ü")[6:], ("u", "p:q ü")),
        (basic("u:"), ("u", "")),
        (basic(b"\xff:p"), ("\ufffd", "p")),
    ],
)
def test_a_login_is_read(header: str, login: tuple[str, str]) -> None:
    found = credentials(header)
    assert found is not None
    assert (found.user, found.password) == login
    assert login[1] == "" or login[1] not in repr(found)


@pytest.mark.parametrize(
    "header",
    [None, "", "Basic", "Basic ", "Basic %%%", "Bearer " + basic("u:p")[6:], basic("up"), basic(":p"), "x" * 9999],
)
def test_what_is_no_login(header: str | None) -> None:
    assert credentials(header) is None


@pytest.mark.parametrize("stored", ["secret", BCRYPT, BCRYPT.replace("$2b$", "$2y$"), scrypt("secret")])
def test_a_password_is_compared(stored: str) -> None:
    users = Users({"u": stored})
    assert hashed(stored) == (stored != "secret")
    assert not good(users, "u", "Secret")
    assert not good(users, "u", "")
    assert not good(users, "u", "s" * 1000)
    assert not good(users, "u", stored) or stored == "secret"
    assert not good(users, "v", "secret")
    assert good(users, "u", "secret")
    assert users.known(Credentials("u", "secret")) is True
    assert not good(users, "u", "Secret")


@pytest.mark.parametrize("stored", ["$2b$99$" + BCRYPT[7:], "$scrypt$ln=99,r=0,p=0$a$b", "$scrypt$ln=4,r=8,p=1$A$A"])
def test_what_only_looks_like_a_hash_lets_nobody_in(stored: str) -> None:
    assert not good(Users({"u": stored}), "u", "secret")


def test_a_stranger_is_compared_as_long_as_a_user() -> None:
    users = Users({"u": BCRYPT})
    assert users.known(Credentials("stranger", "x")) is None
    assert not users.compare(Credentials("stranger", "secret"))


def written(tmp_path: Path, jaas: str, users: str = "") -> str:
    (tmp_path / "users").write_text(users, encoding="latin-1")
    (tmp_path / "jaas").write_text(jaas.replace("FILE", str(tmp_path / "users")), encoding="utf-8")
    return f"-Xmx1G -Djava.security.auth.login.config={tmp_path / 'jaas'}"


GOOD = (
    'KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required file="FILE"; };'
)


def test_the_files_of_a_worker(tmp_path: Path) -> None:
    users = read_users(written(tmp_path, GOOD, "health: health-secret\nkafka\\ ui=a=b\n# nobody: x\n"))
    assert good(users, "health", "health-secret")
    assert good(users, "kafka ui", "a=b")
    assert not good(users, "nobody", "x")


def test_an_empty_file_lets_everyone_in_and_says_so(tmp_path: Path) -> None:
    users = read_users(written(tmp_path, GOOD))
    assert users.everyone
    (warning,) = users.warnings
    assert "everybody may use the REST API" in warning


def test_users_that_are_hardly_meant_are_named_without_their_passwords(tmp_path: Path) -> None:
    users = read_users(written(tmp_path, GOOD, f"admin\nbob: $2y$05$cut-off\nann: plain\neve: {BCRYPT}\n"))
    nobody, cut = users.warnings
    assert "user 'admin' has an empty password" in nobody
    assert "the hash of user 'bob' is malformed" in cut
    assert "cut-off" not in cut


@pytest.mark.parametrize(
    ("jaas", "says"),
    [
        ("KafkaServer { };", "no section KafkaConnect"),
        ("KafkaConnect { };", "no section KafkaConnect"),
        ("KafkaConnect { x", "'required'"),
        ("KafkaConnect { com.LdapLoginModule required; };", "com.LdapLoginModule"),
        ("KafkaConnect { PropertyFileLoginModule required; };", "no file of users"),
        ('KafkaConnect { PropertyFileLoginModule required file="/no/where"; };', "/no/where: it cannot be read"),
    ],
)
def test_what_is_wrong_with_the_files(tmp_path: Path, jaas: str, says: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        read_users(written(tmp_path, jaas))
    assert says in str(wrong.value)


def test_no_file_is_named() -> None:
    with pytest.raises(ConfigError, match="BasicAuthSecurityRestExtension"):
        read_users("-Xmx1G")
    with pytest.raises(ConfigError, match="unclosed"):
        read_users('"')
    with pytest.raises(ConfigError, match="/no/where"):
        read_users("-Djava.security.auth.login.config=/no/where")
