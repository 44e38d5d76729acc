"""A key is explained by its value in each flow and the line that decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from twinlog.config.text.explain import explain
from twinlog.errors import ConfigError

TEXT = """\
clusters = a, b
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
a.bootstrap.servers = a:1
b.bootstrap.servers = b:1
b.admin.bootstrap.servers = b:2
sasl.jaas.config = hush
a.client.id = ${env:TWINLOG_TEST_VARIABLE}
topics = x.*
a->b.enabled = true
a->b.topics = y.*
b->a.enabled = false
b.offset.storage.topic = stored
a.consumer.client.id = ${env:TWINLOG_TEST_VARIABLE}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TWINLOG_TEST_VARIABLE", "resolved")
    monkeypatch.chdir(tmp_path)
    Path("f").write_text(TEXT, "utf-8")
    return "f"


@pytest.mark.parametrize(
    ("key", "lines"),
    [
        (
            "topics",
            [
                "a->b: topics = y.*  (f:11, written as a->b.topics)",
                "b->a: topics = x.*  (f:9, written as topics)",
            ],
        ),
        ("b->a.topics", ["b->a: topics = x.*  (f:9, written as topics)"]),
        ("a->b.tasks.max", ["a->b: tasks.max = 1  (default)"]),
        ("clusters", ["clusters = a, b  (f:1, written as clusters)"]),
        ("twinlog.unknown.keys", ["twinlog.unknown.keys = fail  (default)"]),
        (
            "b.bootstrap.servers",
            [
                "a->b: producer.bootstrap.servers = b:1  (f:5, written as b.bootstrap.servers)",
                "a->b: target.admin.bootstrap.servers = b:2  (f:6, written as b.admin.bootstrap.servers)",
                "b->a: consumer.bootstrap.servers = b:1  (f:5, written as b.bootstrap.servers)",
                "b->a: source.admin.bootstrap.servers = b:2  (f:6, written as b.admin.bootstrap.servers)",
            ],
        ),
        (
            "a->b.consumer.sasl.jaas.config",
            ["a->b: consumer.sasl.jaas.config = [hidden]  (f:7, written as sasl.jaas.config)"],
        ),
        (
            "a.consumer.client.id",
            ["a->b: consumer.client.id = ${env:TWINLOG_TEST_VARIABLE}  (f:14, written as a.consumer.client.id)"],
        ),
        ("a->b.producer.override.acks", ["a->b: producer.acks = all  (default)"]),
        (
            "offset.storage.topic",
            [
                "a->b: offset.storage.topic = stored  (f:13, written as b.offset.storage.topic)",
                "b->a: offset.storage.topic = mm2-offsets.b.internal  (default)",
            ],
        ),
        ("b.group.id", ["a->b: group.id = a-mm2  (default)", "b->a: group.id = b-mm2  (default)"]),
    ],
)
def test_explanations(file: str, key: str, lines: list[str]) -> None:
    assert [str(line) for line in explain(file, key)] == lines


def test_an_unknown_key_is_refused(file: str) -> None:
    with pytest.raises(ConfigError) as caught:
        explain(file, "a->b.topcis")
    assert "did you mean a->b.topics?" in str(caught.value)
