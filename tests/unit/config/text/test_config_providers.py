"""References in values lead to files, directories and the environment, as Kafka's providers read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.config.said import said
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.providers import ProviderError, Providers, build_providers
from twinlog.config.text.values import MissingError
from twinlog.errors.mistakes import ConfigWarning

STRIMZI = "io.strimzi.kafka.EnvVarConfigProvider"
PACKAGE = "org.apache.kafka.common.config.provider."


def providers(**settings: str) -> Providers:
    """Providers file, dir and env; `settings` are their params, with __ for a dot and the name in front."""
    classes = {"file": "FileConfigProvider", "dir": "DirectoryConfigProvider", "env": "EnvVarConfigProvider"}
    written = {f"config.providers.{name}.class": PACKAGE + kind for name, kind in classes.items()}
    for name, value in settings.items():
        provider, _, param = name.partition("__")
        written[f"config.providers.{provider}.param.{param.replace('__', '.')}"] = value
    warnings: list[ConfigWarning] = []
    found = build_providers(tuple(classes), entries(written), warnings)
    assert warnings == []
    return found


def entries(written: Mapping[str, str]) -> dict[str, PropertyEntry]:
    return {key: PropertyEntry(key, value, "f", 1, value) for key, value in written.items()}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    file = tmp_path / "secrets.properties"
    file.write_text("user.name=mirror\nweird:key = x:y\nnested = ${env:TWINLOG_TEST_VARIABLE}\n", "utf-8")
    (tmp_path / "password").write_text("p\n", "utf-8")
    return file


def test_every_provider(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLOG_TEST_VARIABLE", "v")
    known = providers()
    assert known.resolve(f"${{file:{secrets}:user.name}}") == "mirror"
    assert known.resolve(f"${{dir:{secrets.parent}:password}}") == "p\n"
    assert known.resolve("a ${env:TWINLOG_TEST_VARIABLE} b ${env:TWINLOG_TEST_VARIABLE}") == "a v b v"


def test_a_file_that_was_written_anew_is_read_anew(secrets: Path) -> None:
    known = providers()
    assert known.resolve(f"${{file:{secrets}:user.name}}") == "mirror"
    new = secrets.with_name("new")
    new.write_text("user.name=glass_\n")
    new.replace(secrets)
    assert known.resolve(f"${{file:{secrets}:user.name}}") == "glass_"


def test_results_are_not_searched_again(secrets: Path) -> None:
    assert providers().resolve(f"${{file:{secrets}:nested}}") == "${env:TWINLOG_TEST_VARIABLE}"


@pytest.mark.parametrize("text", ["${vault:a:b}", "${nothing}", "$ {env:A}", "plain"])
def test_what_is_no_reference_stays(text: str) -> None:
    assert providers().resolve(text) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${env:TWINLOG_TEST_NO_SUCH_VARIABLE}", "is unset"),
        ("${env:a:TWINLOG_TEST_VARIABLE}", "takes a name only"),
        ("${file:user.name}", "lacks a path"),
        ("${file:SECRETS:no.such}", "lacks a key 'no.such'"),
        ("${file:SECRETS.gone:a}", "is unreadable"),
        ("${dir:FOLDER:gone}", "is unreadable"),
        ("${dir:FOLDER:../password}", "is an invalid file name"),
    ],
)
def test_references_to_nothing(text: str, reason: str, secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TWINLOG_TEST_NO_SUCH_VARIABLE", raising=False)
    with pytest.raises(MissingError) as caught:
        providers().resolve(text.replace("SECRETS", str(secrets)).replace("FOLDER", str(secrets.parent)))
    assert reason in str(caught.value)


def test_a_broken_escape_in_a_file_of_secrets_shows_no_character_of_its_value(secrets: Path) -> None:
    secrets.write_text("user.password = pa\\u5ecr3t\n")
    with pytest.raises(MissingError) as caught:
        providers().resolve(f"${{file:{secrets}:user.name}}")
    assert "is unreadable: a \\u in it lacks four hexadecimal digits" in str(caught.value)
    assert "5ecr" not in str(caught.value)


def test_allowed_paths(secrets: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert providers(file__allowed__paths=str(secrets.parent)).resolve(f"${{file:{secrets}:user.name}}") == "mirror"
    fenced = providers(file__allowed__paths=str(elsewhere), dir__allowed__paths=str(elsewhere))
    for text in (
        f"${{file:{secrets}:user.name}}",
        f"${{file:{elsewhere}/../{secrets.parent.name}/{secrets.name}:user.name}}",
        f"${{dir:{secrets.parent}:password}}",
    ):
        with pytest.raises(MissingError, match="outside of"):
            fenced.resolve(text)


def test_allowed_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLOG_TEST_VARIABLE", "v")
    assert providers(env__allowlist__pattern="TWINLOG_.*").resolve("${env:TWINLOG_TEST_VARIABLE}") == "v"
    with pytest.raises(MissingError, match=r"allowlist\.pattern"):
        providers(env__allowlist__pattern="WINLOG_.*").resolve("${env:TWINLOG_TEST_VARIABLE}")


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"file__allowed__paths": "relative"}, "config.providers.file.param.allowed.paths"),
        ({"dir__allowed__paths": "/no/such/folder"}, "config.providers.dir.param.allowed.paths"),
        ({"env__allowlist__pattern": "("}, "config.providers.env.param.allowlist.pattern"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, str], key: str) -> None:
    with pytest.raises(ProviderError) as caught:
        providers(**settings)
    assert caught.value.key == key


def test_a_provider_without_a_class_is_none() -> None:
    known = build_providers(("file",), {}, [])
    assert known.resolve("${file:/x:y}") == "${file:/x:y}"
    assert (
        known.why_kept("${file:/x:y}") == "${file:/x:y} stays as it is, because config.providers.file.class is missing"
    )
    assert known.why_kept("${vault:x:y}") == "${vault:x:y} stays as it is, because config.providers lacks 'vault'"
    assert known.why_kept("plain $ {file:x}") is None


@pytest.mark.parametrize("kind", ["EnvVarConfigProvider", PACKAGE + "EnvVarConfigProvider", STRIMZI])
def test_the_environment_by_each_of_its_classes(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWINLOG_TEST_VARIABLE", "v")
    warnings: list[ConfigWarning] = []
    known = build_providers(("env",), entries({"config.providers.env.class": kind}), warnings)
    assert known.resolve("${env:TWINLOG_TEST_VARIABLE}") == "v"
    assert warnings == []


@pytest.mark.parametrize(
    "kind",
    [
        "com.amazonaws.kafka.config.providers.SecretsManagerConfigProvider",
        "io.lenses.connect.secrets.providers.VaultSecretProvider",
        "io.strimzi.kafka.KubernetesSecretConfigProvider",
        "org.apache.kafka.common.config.provider.NoSuchConfigProvider",
    ],
)
def test_another_class_is_a_warning_until_a_value_needs_it(kind: str) -> None:
    warnings: list[ConfigWarning] = []
    key = "config.providers.vault.class"
    known = build_providers(("vault",), entries({key: kind}), warnings)
    unreadable = "a value that refers to it as ${vault:...} is unreadable"
    assert list(said(warnings)) == [f"f:1: {key}: the Java class {kind} is unsupported here; {unreadable}"]
    assert known.why_kept("${vault:a:b}") is None
    with pytest.raises(MissingError) as caught:
        known.resolve("a ${vault:secret/mm2:password}")
    why = f"${{vault:...}} needs the Java class {kind} ({key} of line 1), which is unsupported here"
    assert str(caught.value) == why
    for part in ("DirectoryConfigProvider for ${vault:/FOLDER:FILE}", "FileConfigProvider for ${vault:/FILE:KEY}"):
        assert PACKAGE + part in caught.value.way_out


def test_secrets_are_utf8(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_bytes("pw=pässwört €😀\nescaped=p\\u00e4ss\nold=".encode() + b"p\xe4ss\n")
    (tmp_path / "pw").write_text("pässwört", "utf-8")
    known = providers()
    assert known.resolve(f"${{file:{tmp_path}/s.properties:pw}}") == "pässwört €😀"
    assert known.resolve(f"${{file:{tmp_path}/s.properties:escaped}}") == "päss"
    assert known.resolve(f"${{dir:{tmp_path}:pw}}") == "pässwört"
    with pytest.raises(MissingError, match=r"the value of 'old' in .*s\.properties is invalid UTF-8") as caught:
        known.resolve(f"${{file:{tmp_path}/s.properties:old}}")
    assert caught.value.way_out == "save the file in UTF-8, or write \\uXXXX in it"
