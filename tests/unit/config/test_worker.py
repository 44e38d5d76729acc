"""What the file of a Connect worker comes to in its settings, and what is refused in it."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.config.files import kafkas_files, worker_files
from tests.unit.config.said import said
from twinlog.config.keys.table import WORKER_FILE
from twinlog.config.properties import PropertyEntry, parse_properties
from twinlog.config.text.values import ValueRefusedError, parse_header_rules, parse_listener
from twinlog.config.worker import WorkerConfig, load_worker, worker_of
from twinlog.errors import ConfigError
from twinlog.settings.worker import HeaderSettings, ListenerAddress

BASE = worker_files.distributed("broker:9092")
POLICIES = "org.apache.kafka.connect.connector.policy."
ALONE = "offset.storage.file.filename = /var/positions\n"


def read(text: str, *, base: str = BASE, distributed: bool = True) -> WorkerConfig:
    return worker_of(parse_properties(base + text, "w.properties"), "w.properties", distributed=distributed)


def problems(text: str, *, base: str = BASE, distributed: bool = True) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        read(text, base=base, distributed=distributed)
    return list(said(caught.value.problems))


@pytest.mark.parametrize(
    ("text", "setting", "value"),
    [
        ("", "group.group_id", "workers"),
        ("", "client.bootstrap_servers", ("broker:9092",)),
        ("", "client.request_timeout_ms", 40_000),
        ("", "client.default_api_timeout_ms", 60_000),
        ("request.timeout.ms = 7\n", "client.request_timeout_ms", 7),
        ("", "group.offset_storage.partitions", 25),
        ("", "group.status_storage.partitions", 5),
        ("config.storage.partitions = 9\n", "group.config_storage.partitions", 1),
        ("", "group.config_storage.replication_factor", 3),
        ("status.storage.replication.factor = -1\n", "group.status_storage.replication_factor", -1),
        ("offset.storage.segment.bytes = 9\n", "group.offset_storage.settings", (("segment.bytes", "9"),)),
        ("offset.storage.cleanup.policy = delete\n", "group.offset_storage.settings", ()),
        ("", "rest.listeners", (ListenerAddress("http", "", 8083),)),
        ("listeners = HTTP://0.0.0.0:8083\n", "rest.listeners", (ListenerAddress("http", "0.0.0.0", 8083),)),
        ("", "rest.admin_listeners", None),
        ("admin.listeners =\n", "rest.admin_listeners", ()),
        ("admin.listeners = http://[::1]:0\n", "rest.admin_listeners", (ListenerAddress("http", "::1", 0),)),
        ("rest.advertised.port = 99\n", "rest.advertised_port", 99),
        ("rest.advertised.listener = HTTP\n", "rest.advertised_listener", "http"),
        ("access.control.allow.origin = *\n", "rest.allow_origin", "*"),
        ("", "override_policy", "All"),
        ("connector.client.config.override.policy = None\n", "override_policy", "None"),
        (
            f"connector.client.config.override.policy = {POLICIES}PrincipalConnectorClientConfigOverridePolicy\n",
            "override_policy",
            "Principal",
        ),
        ("connector.client.config.override.allowlist = acks, linger.ms\n", "override_allowlist", ("acks", "linger.ms")),
        ("exactly.once.source.support = PREPARING\n", "exactly_once", "preparing"),
        ("topic.tracking.enable = false\n", "topic_tracking", False),
        ("inter.worker.key.size = 256\n", "group.key_size", 256),
    ],
)
def test_what_a_key_comes_to(text: str, setting: str, value: object) -> None:
    assert attrgetter(setting)(read(text).settings) == value


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("listeners = ftp://x:1\n", "w.properties:8: listeners: 'ftp://x:1' is invalid; write http://host:port"),
        ("listeners =\n", "w.properties:8: listeners: an empty list of addresses"),
        ("listeners = https://:8443\n", "w.properties: ssl.keystore.location: missing"),
        (
            "listeners = https://:8443\nlisteners.https.ssl.client.auth = required\n",
            "w.properties: listeners.https.ssl.keystore.location: missing",
        ),
        ("response.http.headers.config = put X: y\n", "w.properties:8: response.http.headers.config: 'put X: y'"),
        (
            "connector.client.config.override.policy = my.Policy\n",
            "override.policy: 'my.Policy' is invalid; write All, None",
        ),
        ("session.timeout.ms = soon\n", "session.timeout.ms: 'soon' is invalid; write milliseconds as a whole number"),
        (
            "status.storage.replication.factor = 0\n",
            "write a whole number of 1 or more, or -1 for the default of the brokers",
        ),
        ("status.storage.topic = configs\n", "status.storage.topic: the topic of config.storage.topic"),
        ("exactly.once.source.support = maybe\n", "write disabled, preparing or enabled"),
        (
            "inter.worker.signature.algorithm = HmacSHA1\n",
            "inter.worker.verification.algorithms with HmacSHA1",
        ),
        ("plugin.discovery = never\n", "plugin.discovery: 'never'"),
        ("rest.advertised.listener = https\n", "'https' is invalid; write the scheme of any of the listeners"),
        ("producer.linger.ms = x\n", "producer.linger.ms: 'x'"),
        ("security.protocol = SASL_SSL\n", "w.properties: sasl.mechanism: missing"),
        ("twinlog.gap.polcy = stop\n", "did you mean twinlog.gap.policy?"),
        (
            "header.converter = org.apache.kafka.connect.json.JsonConvertor\n",
            "header.converter: class org.apache.kafka.connect.json.JsonConvertor could not be found; write any of ",
        ),
        ("header.converter =\n", "w.properties:8: header.converter: nothing; write any of "),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    assert any(problem in found for found in problems(text)), problems(text)


@pytest.mark.parametrize("name", [line.split(" ")[0] for line in BASE.splitlines()])
def test_a_distributed_worker_needs_each_of_these(name: str) -> None:
    rest = "".join(line + "\n" for line in BASE.splitlines() if not line.startswith(name))
    assert [found.split("; write")[0] for found in problems("", base=rest)] == [f"w.properties: {name}: missing"]


def test_every_problem_is_found_at_once() -> None:
    found = problems("listeners = x\nsession.timeout.ms = y\n", base="")
    assert [text.split(": ")[1] for text in found[:2]] == ["listeners", "session.timeout.ms"]
    assert {text.split(": ")[1] for text in found[2:]} == {line.split(" ")[0] for line in BASE.splitlines()}


def test_a_standalone_worker_has_no_group_but_a_file() -> None:
    base = "".join(line + "\n" for line in BASE.splitlines() if "storage" not in line and "group" not in line)
    settings = read(ALONE, base=base, distributed=False).settings
    assert (settings.group, settings.offset_file, settings.distributed) == (None, "/var/positions", False)
    assert [text.split(";")[0] for text in problems("", base=base, distributed=False)] == [
        "w.properties: offset.storage.file.filename: missing"
    ]


@pytest.mark.parametrize("distributed", [True, False])
def test_kafkas_own_files_are_taken_as_they_are(distributed: bool, tmp_path: Path) -> None:
    file = tmp_path / "connect.properties"
    file.write_text(kafkas_files.DISTRIBUTED if distributed else kafkas_files.STANDALONE)
    found = load_worker(file)
    assert (found.settings.distributed, found.settings.client.bootstrap_servers) == (distributed, ("localhost:9092",))
    assert said(found.warnings) == (
        f"{file}:4: these keys are ignored here: key.converter.schemas.enable, value.converter.schemas.enable",
    )


def test_what_means_nothing_here_is_named_once() -> None:
    (warning,) = said(read("plugin.path = /jars\nscheduled.rebalance.max.delay.ms = 0\n").warnings)
    assert warning == "w.properties:8: these keys are ignored here: plugin.path, scheduled.rebalance.max.delay.ms"


def test_a_lost_worker_is_replaced_in_time_unless_its_file_says_otherwise() -> None:
    for text, session_ms in (("", 6_000), ("session.timeout.ms = 30000\n", 30_000)):
        group = read(text).settings.group
        assert group is not None
        assert group.session_timeout_ms == session_ms


def test_what_is_always_so_in_the_topics_of_a_group_is_a_warning() -> None:
    found = read(
        "config.storage.cleanup.policy = delete\nconfig.storage.partitions = 3\noffset.storage.partitions = 3\n"
    )
    assert [warning.partition(": ")[2] for warning in said(found.warnings)] == [
        "config.storage.cleanup.policy: 'delete' is ignored; it is always compact",
        "config.storage.partitions: '3' is ignored; it is always 1",
    ]


def test_a_login_that_nobody_would_ask_for_is_refused() -> None:
    package = "org.apache.kafka.connect.rest.basic.auth.extension."
    for known in (package + "BasicAuthSecurityRestExtension", "BasicAuthSecurityRestExtension", ""):
        assert not read(f"rest.extension.classes = {known}\n").warnings
    for wrong in (package + "BasicAuthSecurityRestExtention", "org.corp.Audit, BasicAuthSecurityRestExtension"):
        with pytest.raises(ConfigError) as caught:
            read(f"rest.extension.classes = {wrong}\n")
        (problem,) = caught.value.problems
        assert (problem.key, problem.line) == ("rest.extension.classes", 8)


def test_an_unknown_key_is_a_warning_that_names_the_known_one() -> None:
    (warning,) = said(read("rest.extention.classes = x\n").warnings)
    assert warning.startswith("w.properties:8: rest.extention.classes: unknown key, ignored; ")
    assert "did you mean rest.extension.classes?" in warning


def test_references_are_resolved_and_secrets_not_shown(tmp_path: Path) -> None:
    (tmp_path / "kafka.properties").write_text("user = connect\npassword = hush-hush\n")
    file = tmp_path / "worker.properties"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    file.write_text(
        BASE
        + "config.providers: file\n"
        + "config.providers.file.class: org.apache.kafka.common.config.provider.FileConfigProvider\n"
        + "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\n"
        + f'sasl.jaas.config = {login} username="${{file:{tmp_path}/kafka.properties:user}}" '
        + f'password="${{file:{tmp_path}/kafka.properties:password}}";\n'
    )
    settings = load_worker(file).settings
    assert (settings.client.sasl_username, settings.client.sasl_password) == ("connect", "hush-hush")
    assert "hush-hush" not in repr(settings)


def test_a_provider_of_another_class_is_a_problem_only_where_a_value_needs_it() -> None:
    kind = "com.github.jcustenborder.kafka.config.aws.SecretsManagerConfigProvider"
    listed = f"config.providers = aws\nconfig.providers.aws.class = {kind}\n"
    (warning,) = said(read(listed).warnings)
    assert warning.startswith(f"w.properties:9: config.providers.aws.class: the Java class {kind} is unsupported here")
    assert said(read(f"{listed}plugin.path = ${{aws:a:b}}\n").warnings)[0] == warning
    (problem,) = problems(f"{listed}client.id = ${{aws:a:b}}\n")
    assert problem.startswith("w.properties:10: client.id: ")
    assert f"needs the Java class {kind} (config.providers.aws.class of line 9)" in problem
    assert "DirectoryConfigProvider for ${aws:/FOLDER:FILE}" in problem


names = st.text(max_size=20) | st.sampled_from(sorted(WORKER_FILE.exact))


@given(st.dictionaries(names, st.text(max_size=9), max_size=9), st.booleans())
def test_no_file_breaks_its_reading(written: dict[str, str], distributed: bool) -> None:
    base = parse_properties(BASE + ALONE, "w")
    more = [PropertyEntry(key, value, "w", number, value) for number, (key, value) in enumerate(written.items(), 100)]
    with suppress(ConfigError):
        assert worker_of([*base, *more], "w", distributed=distributed).settings.distributed is distributed


hosts = st.one_of(st.just(""), st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True), st.just("[::1]"))


@given(st.sampled_from(["http", "HTTP", "https", "hTTps"]), hosts, st.integers(0, 65_535))
def test_a_listener_is_read_as_it_is_written(scheme: str, host: str, port: int) -> None:
    assert parse_listener(f" {scheme}://{host}:{port} ") == ListenerAddress(scheme.lower(), host.strip("[]"), port)


@given(st.text())
def test_no_text_breaks_the_reading_of_listeners_and_headers(text: str) -> None:
    for parse in (parse_listener, parse_header_rules):
        with suppress(ValueRefusedError):
            assert parse(text) is not None


def test_header_rules_may_hold_commas_in_quotes() -> None:
    text = 'set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store", setDate Expires: 0'
    assert parse_header_rules(text) == (
        HeaderSettings("set", "X-Frame-Options", "DENY"),
        HeaderSettings("add", "Cache-Control", "no-cache, no-store"),
        HeaderSettings("setDate", "Expires", "0"),
    )
