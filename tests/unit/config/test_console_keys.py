"""The keys of the console: the login by an issuer, in the file of a process and in a file of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.certificates import authority
from twinlog.config.console import load_open_id
from twinlog.config.load import load
from twinlog.config.worker import load_worker
from twinlog.errors import ConfigError
from twinlog.settings.open_id import OpenIdSettings
from twinlog.settings.worker import ServedConsole

OAUTH = "twinlog.console.oauth."
GOOD = {
    "issuer": "https://id.example/realms/ops",
    "client.id": "console",
    "client.secret": "hush",
    "redirect.uri": "https://mirror.example:8081/ui/login/callback",
    "allowed.groups": "ops, dev",
}
MIRROR = "clusters = s, w\ns.bootstrap.servers = s:1\nw.bootstrap.servers = w:1\ns->w.enabled = true\n"
CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
WORKER = (
    "bootstrap.servers = w:1\ngroup.id = g\nconfig.storage.topic = c\noffset.storage.topic = o\n"
    f"status.storage.topic = t\nkey.converter = {CONVERTER}\nvalue.converter = {CONVERTER}\n"
)


def lines(**changes: str | None) -> str:
    """The good lines with changes; underscores in place of dots, None leaves a key out."""
    found = {**GOOD, **{name.replace("_", "."): value for name, value in changes.items()}}
    return "".join(f"{OAUTH}{name} = {value}\n" for name, value in found.items() if value is not None)


def written(folder: Path, text: str) -> Path:
    path = folder / "console.properties"
    path.write_text(text, encoding="latin-1")
    return path


def refusals(folder: Path, text: str) -> str:
    with pytest.raises(ConfigError) as failed:
        load_open_id(written(folder, text))
    return str(failed.value)


LOGIN = OpenIdSettings(
    "https://id.example/realms/ops",
    "console",
    "hush",
    "https://mirror.example:8081/ui/login/callback",
    groups=("ops", "dev"),
)


def test_the_login_is_in_the_file_of_a_process_or_in_one_of_its_own(tmp_path: Path) -> None:
    assert load_open_id(written(tmp_path, lines())) == (LOGIN, ())
    assert load(written(tmp_path, MIRROR + lines())).console == ServedConsole(open_id=LOGIN)
    assert load_worker(written(tmp_path, WORKER + lines())).settings.console == ServedConsole(open_id=LOGIN)
    assert load(written(tmp_path, MIRROR)).console == ServedConsole()
    assert load_worker(written(tmp_path, WORKER)).settings.console == ServedConsole()


def test_each_key_has_its_field(tmp_path: Path) -> None:
    text = lines(scope="openid profile", user_claim="email", groups_claim="roles", allowed_subjects="a, b")
    found, _ = load_open_id(written(tmp_path, text))
    assert (found.scope, found.user_claim, found.groups_claim) == ("openid profile", "email", "roles")
    assert (found.subjects, found.groups) == (("a", "b"), ("ops", "dev"))
    public, _ = load_open_id(written(tmp_path, lines(client_secret=None)))
    assert public.client_secret is None


def test_a_secret_comes_from_a_provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSOLE_SECRET", "from-env")
    provider = "config.providers = env\nconfig.providers.env.class = "
    provider += "org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    found, warnings = load_open_id(written(tmp_path, provider + lines(client_secret="${env:CONSOLE_SECRET}")))
    assert (found.client_secret, warnings) == ("from-env", ())
    monkeypatch.delenv("CONSOLE_SECRET")
    assert f"{OAUTH}client.secret" in refusals(tmp_path, provider + lines(client_secret="${env:CONSOLE_SECRET}"))
    assert "${env:CONSOLE_SECRET}" in refusals(tmp_path, lines(client_secret="${env:CONSOLE_SECRET}"))


def test_an_authority_of_the_issuer_is_read(tmp_path: Path) -> None:
    trusted = authority()
    store = tmp_path / "trusted.pem"
    store.write_text(trusted.pem)
    text = f"{OAUTH}https.ssl.truststore.type = PEM\n{OAUTH}https.ssl.truststore.location = {store}\n"
    found, _ = load_open_id(written(tmp_path, lines() + text))
    assert found.tls is not None
    assert found.tls.authorities == trusted.pem
    store.unlink()
    assert "ssl.truststore.location" in refusals(tmp_path, lines() + text)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"issuer": None}, "issuer: missing"),
        ({"issuer": ""}, "issuer: nothing"),
        ({"client_id": None}, "client.id: missing"),
        ({"redirect_uri": None}, "redirect.uri: missing"),
        ({"allowed_groups": None}, "allowed.subjects: missing"),
        ({"allowed_groups": " , "}, "allowed.subjects: missing"),
        ({"issuer": "id.example"}, "an address with a host"),
        ({"issuer": "http://id.example"}, "https: codes and tokens of a login cross the network"),
        ({"issuer": "ftp://127.0.0.1"}, "https: codes and tokens"),
        ({"issuer": "https://id.example/?x=1"}, "an address with a host"),
        ({"issuer": "https://id.example/#x"}, "an address with a host"),
        ({"issuer": "https://u:p@id.example"}, "an address with a host"),
        ({"issuer": "https://id.example:x"}, "an address with a host"),
        ({"issuer": "https://["}, "an address with a host"),
        ({"redirect_uri": "http://mirror.example/ui/login/callback"}, "https: codes and tokens"),
        ({"redirect_uri": "https://mirror.example/ui"}, "an address with the path /ui/login/callback"),
        ({"scope": "profile"}, "scopes with openid among them"),
    ],
)
def test_a_login_that_is_set_up_in_part_or_in_the_clear_is_refused(
    tmp_path: Path, changes: dict[str, str | None], problem: str
) -> None:
    text = refusals(tmp_path, lines(**changes))
    assert problem in text
    assert "hush" not in text
    with pytest.raises(ConfigError) as failed:
        load(written(tmp_path, MIRROR + lines(**changes)))
    assert problem in str(failed.value)


@pytest.mark.parametrize("host", ["localhost:8081", "127.0.0.1", "[::1]:9"])
def test_addresses_of_this_machine_may_do_without_tls(tmp_path: Path, host: str) -> None:
    text = lines(issuer=f"http://{host}", redirect_uri=f"http://{host}/ui/login/callback")
    found, _ = load_open_id(written(tmp_path, text))
    assert found.issuer == f"http://{host}"


def test_a_file_of_its_own_has_only_keys_of_the_login(tmp_path: Path) -> None:
    text = refusals(tmp_path, lines() + f"{OAUTH}client.ids = x\nclusters = a\n")
    assert f"{OAUTH}client.ids: unknown key" in text
    assert f"{OAUTH}client.id?" in text
    assert "clusters: unknown key" in text
    assert f"{OAUTH}issuer: missing" in refusals(tmp_path, "")
