"""What Java's `keytool` reads out of a key store in Java's own form.

Passwords are handed over through pipes; files are their owner's alone and gone afterwards.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from twinlog.config.refused import ValueRefusedError
from twinlog.scratch import Scratch

TIMEOUT_S = 60.0
_BRIEF = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
"""It ends before a better compiler or more threads for garbage would pay."""

_ENTRY = re.compile(r"^Alias name: (.+)$(?:\n(?!Alias name:).*)*?\nEntry type: PrivateKeyEntry$", re.MULTILINE)
_CONVERT = "keytool -importkeystore -srckeystore FILE -destkeystore FILE.p12 -deststoretype PKCS12"


class KeytoolError(ValueRefusedError):
    """A store cannot be read. `password` and `key` report that the password of the store, or of its key, is wrong or
    missing."""

    def __init__(self, found: str, expected: str, *, password: bool = False, key: bool = False) -> None:
        super().__init__(found, expected)
        self.password = password
        self.key = key


def certificates_of_jks(content: bytes, password: str | None) -> str:
    """Every certificate of the store, as PEM text among other text. Without a password the store is not verified."""
    with Scratch() as work:
        return _listed(_written(content, work), password)


def key_of_jks(content: bytes, password: str | None, key_password: str | None) -> tuple[bytes, str]:
    """The first key of the store with its certificates, as PKCS12 with the password that is returned too."""
    if password is None:
        raise KeytoolError("missing", "the password of that file", password=True)
    with Scratch() as work:
        store = _written(content, work)
        entry = _ENTRY.search(_listed(store, password))
        if entry is None:
            raise KeytoolError("no private key in it", "a key store with the client's key")
        made = work / "key.p12"
        own = secrets.token_urlsafe(24)
        output = _run(
            *(
                f"-importkeystore -noprompt -srckeystore {store} -srcstoretype JKS "
                f"-destkeystore {made} -deststoretype PKCS12 -srcalias"
            ).split(),
            entry[1],
            passwords={"-srcstorepass": password, "-srckeypass": key_password or password, "-deststorepass": own},
        )
        if "Cannot recover key" in output or "UnrecoverableKeyException" in output:
            if key_password is None:
                raise KeytoolError(
                    "missing", "the password of the private key, which is not that of the file", key=True
                )
            raise KeytoolError("does not open the private key", "the password of that key", key=True)
        if not made.exists():
            raise KeytoolError(f"keytool cannot read the file: {_last_line(output)}", "a key store in JKS or PKCS12")
        return made.read_bytes(), own


def _listed(store: Path, password: str | None) -> str:
    passwords = {} if password is None else {"-storepass": password}
    output = _run("-list", "-rfc", "-keystore", str(store), "-storetype", "JKS", passwords=passwords)
    if "password was incorrect" in output:
        raise KeytoolError(
            "does not open the file, or the file is damaged",
            "the password that the file was written with",
            password=True,
        )
    if "keytool error" in output:
        raise KeytoolError(f"keytool cannot read the file: {_last_line(output)}", "a key store in JKS or PKCS12")
    return output


def _written(content: bytes, work: Path) -> Path:
    # keytool takes a file that it may read; the content is what the caller saw, whatever happens to the file meanwhile.
    store = work / "store.jks"
    store.write_bytes(content)
    return store


def _run(*arguments: str, passwords: dict[str, str]) -> str:
    """The output of keytool; `passwords` are by the option that asks for them."""
    environment = {name: value for name, value in os.environ.items() if name not in {"JAVA_TOOL_OPTIONS"}}
    # The output is searched for English words, so keytool gets that language. Java decodes its environment and its
    # arguments by the locale, which may have no characters for a password, but files by file.encoding.
    command = [_keytool(), *_BRIEF, "-J-Duser.language=en", "-J-Dfile.encoding=UTF-8", *arguments]
    with contextlib.ExitStack() as pipes:
        ends = [pipes.enter_context(_pipe(password)) for password in passwords.values()]
        for option, end in zip(passwords, ends, strict=True):
            command += [f"{option}:file", f"/dev/fd/{end}"]
        try:
            done = subprocess.run(
                command,
                env=environment,
                pass_fds=ends,
                # keytool asks for a password that is missing; an empty line lets it go on without.
                input="\n",
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=False,
                timeout=TIMEOUT_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise KeytoolError(
                f"keytool does not run ({type(error).__name__})", f"a Java that works, or PKCS12: {_CONVERT}"
            ) from None
    return done.stdout + done.stderr


@contextlib.contextmanager
def _pipe(password: str) -> Iterator[int]:
    """An end to read from, with one line in it."""
    out, into = os.pipe()
    try:
        with open(into, "wb") as written:
            written.write(f"{password}\n".encode())
        yield out
    finally:
        os.close(out)


def _keytool() -> str:
    """keytool of the Java that Spark would start: that of JAVA_HOME, or else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java")
    places = [Path(home, "bin") if home else None, Path(java).resolve().parent if java else None]
    for place in places:
        if place is not None and (place / "keytool").is_file():
            return str(place / "keytool")
    found = shutil.which("keytool")
    if found is None:
        raise KeytoolError(
            "a store in Java's own form, and Java's keytool, which reads it, is not found here",
            f"JAVA_HOME to be set, or PKCS12: {_CONVERT}",
        )
    return found


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()] or ["it printed nothing"]
    return next((line for line in lines if "keytool error" in line), lines[-1])
