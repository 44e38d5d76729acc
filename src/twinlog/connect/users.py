"""The users of a worker's REST API, from the files that BasicAuthSecurityRestExtension reads.

A JAAS file has the section KafkaConnect with Connect's PropertyFileLoginModule. This login module names a properties
file of users and passwords. Both files are read once, at the start.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import javaproperties

from twinlog.config.security.jaas import FILE_OPTION, JaasEntry, JaasError, named_file, parse_jaas_file
from twinlog.connect.rest.users import Users, hashed
from twinlog.errors import ConfigError
from twinlog.errors.mistakes import ConfigProblem, MistakeKind

SECTION = "KafkaConnect"

_MODULE = "PropertyFileLoginModule"
_EXAMPLE = (
    f'{SECTION} {{ org.apache.kafka.connect.rest.basic.auth.extension.{_MODULE} required file="/path/to/users"; }};'
)


def read_users(kafka_opts: str) -> Users:
    """The users that the options of a JVM lead to. Raises ConfigError, which names the file and the way out."""
    try:
        jaas = named_file(kafka_opts)
    except JaasError as error:
        raise _problem("KAFKA_OPTS", FILE_OPTION, str(error), f"-D{FILE_OPTION}=/path/to/jaas.conf") from None
    if jaas is None:
        raise _problem(
            "KAFKA_OPTS",
            FILE_OPTION,
            "nothing",
            f"-D{FILE_OPTION}=/path/to/jaas.conf, because of BasicAuthSecurityRestExtension",
        )
    try:
        sections = parse_jaas_file(_text(jaas, "utf-8", FILE_OPTION))
    except JaasError as error:
        raise _problem(str(jaas), SECTION, str(error), _EXAMPLE) from None
    entries = sections.get(SECTION, ())
    if len(entries) != 1:
        found = f"no section {SECTION}" if not entries else f"{len(entries)} login modules in section {SECTION}"
        raise _problem(str(jaas), SECTION, found, f"one: {_EXAMPLE}")
    return _users_of(entries[0], str(jaas))


def _users_of(entry: JaasEntry, jaas: str) -> Users:
    if entry.simple_name != _MODULE:
        raise _problem(jaas, SECTION, f"the login module {entry.module}", f"the only module known here: {_EXAMPLE}")
    named = entry.options.get("file", "").strip()
    if not named:
        raise _problem(jaas, "file", "no file of users", _EXAMPLE)
    return users_in(Path(named))


def users_in(path: Path) -> Users:
    """The users of a file of properties, a name and a password in each. Raises ConfigError."""
    try:
        passwords = javaproperties.loads(_text(path, "latin-1", ""))
    except ValueError:
        raise _problem(str(path), "", "content other than properties", "lines of the form user=password") from None
    return Users(passwords, tuple(_warnings(str(path), passwords)))


def _warnings(named: str, passwords: Mapping[str, str]) -> Iterator[str]:
    if not passwords:
        yield f"TW-REST-02: {named} has no users: everybody may use the REST API without a login"
    for user, password in passwords.items():
        if not password:
            yield (
                f"TW-REST-03: {named}: user {user!r} has an empty password, so that the name is enough to log in as "
                "this user"
            )
        elif password.startswith(("$2", "$scrypt$")) and not hashed(password):
            yield f"TW-REST-04: {named}: the hash of user {user!r} is malformed, and counts as a plain password"


def _text(path: Path, encoding: str, key: str) -> str:
    try:
        return path.read_text(encoding=encoding)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no {encoding}"
        expected, kind = "a file that the worker may read", MistakeKind.UNREADABLE_FILE
        raise _problem(str(path), key, f"it cannot be read: {reason}", expected, kind) from None


def _problem(file: str, key: str, found: str, expected: str, kind: MistakeKind | None = None) -> ConfigError:
    return ConfigError([ConfigProblem(file, None, key, found, expected, kind)])
