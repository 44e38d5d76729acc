"""Where metrics are served, out of either kind of file and of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from twinlog.cli.foreground import with_listeners
from twinlog.config import load
from twinlog.config.properties import parse_properties
from twinlog.config.worker import worker_of
from twinlog.errors import ConfigError
from twinlog.settings.worker import ListenerAddress, MetricsSettings

FLOW = "clusters = a, b\na.bootstrap.servers = h:1\nb.bootstrap.servers = h:2\na->b.enabled = true\n"
WORKER = (
    "bootstrap.servers = h:1\nkey.converter = org.apache.kafka.connect.converters.ByteArrayConverter\n"
    "value.converter = org.apache.kafka.connect.converters.ByteArrayConverter\n"
    "offset.storage.file.filename = /tmp/offsets\n"
)
HERE = ListenerAddress("http", "127.0.0.1", 9404)


def of_flows(folder: Path, text: str) -> MetricsSettings:
    file = folder / "mm2.properties"
    file.write_text(FLOW + text, "utf-8")
    return load(file).metrics


def of_worker(text: str) -> MetricsSettings:
    found = worker_of(parse_properties(WORKER + text, "w.properties"), "w.properties", distributed=False)
    return found.settings.metrics


def test_nothing_is_served_unless_it_is_asked_for(tmp_path: Path) -> None:
    assert of_flows(tmp_path, "") == of_worker("") == MetricsSettings()


def test_both_kinds_of_file_name_addresses(tmp_path: Path) -> None:
    text = "twinlog.metrics.listeners = http://127.0.0.1:9404\ntwinlog.metrics.partitions.enabled = false\n"
    assert of_flows(tmp_path, text) == of_worker(text) == MetricsSettings((HERE,), partitions=False)


def test_https_needs_a_key_store(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"twinlog\.metrics\.listeners\.https\.ssl\.keystore|ssl\.keystore"):
        of_flows(tmp_path, "twinlog.metrics.listeners = https://127.0.0.1:9404\n")


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1.*http://host:port"):
        of_flows(tmp_path, "twinlog.metrics.listeners = 127.0.0.1\n")


def test_the_command_line_goes_before_the_file() -> None:
    other = MetricsSettings((ListenerAddress("http", "", 1),))
    assert with_listeners(other, None) is other
    assert with_listeners(other, ["http://127.0.0.1:9404"]).listeners == (HERE,)


@pytest.mark.parametrize("text", ["9404", "https://127.0.0.1:9404"])
def test_a_wrong_address_on_the_command_line_says_what_to_write(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"expected http|keystore"):
        with_listeners(MetricsSettings(), [text])


@pytest.mark.parametrize(("text", "has"), [("", True), ("= false", False), ("= true", True)])
def test_the_source_is_left_out_only_where_the_file_says_so(tmp_path: Path, text: str, has: bool) -> None:
    file = tmp_path / "mm2.properties"
    line = f"add.source.alias.to.metrics {text}\nmetric.names.formats = legacy, new\n" if text else ""
    file.write_text(FLOW + line, "utf-8")
    (flow, *_) = load(file).flows
    assert flow.metrics_have_source is has
    assert flow.metric_names == (("legacy", "new") if text else ("legacy",))
