"""The options of a DataFrame's reader, read and checked as Spark's Kafka source does (class KafkaSourceProvider).

Options `kafka.*` are the settings of its consumer.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from twinlog.config.flow.clients import read_connection
from twinlog.config.keys.table import CONSUMER, KeyTable
from twinlog.config.load import load
from twinlog.config.properties import PropertyEntry
from twinlog.config.text.config_reader import ConfigReader, Problems, read_fields
from twinlog.config.text.entries import check_value
from twinlog.errors import ConfigError, OptionError, PatternError
from twinlog.errors.mistakes import ConfigWarning, MistakeKind
from twinlog.model.java_regex.pattern import JavaPattern, java_pattern
from twinlog.model.types import TopicName, TopicPartition
from twinlog.settings.client import ClientSettings, ConsumerSettings
from twinlog.settings.flow import FlowSettings
from twinlog.spark.dataframes.ranges import (
    EARLIEST,
    LATEST,
    EarliestOrLatestRangeLimit,
    GlobalTimestampRangeLimit,
    Limit,
    SpecificOffsetRangeLimit,
    SpecificTimestampRangeLimit,
    as_set,
    read_offsets,
    read_partitions,
    read_timestamps,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

PREFIX = "kafka."
_PLACE = "option"

Use = Literal["batch", "stream", "either"]
"""The use for which options are checked; `either` before it is known."""

STRATEGIES = ("subscribe", "subscribepattern", "assign")
_NAMES = "Set(subscribe, subscribepattern, assign)"

_NO_RESET = """
Kafka option 'auto.offset.reset' is not supported.
Instead set the source option 'startingoffsets' to 'earliest' or 'latest'
to specify where to start. Structured Streaming manages which offsets are consumed
internally, rather than relying on the kafkaConsumer to do it. This will ensure that no
data is missed when new topics/partitions are dynamically subscribed. Note that
'startingoffsets' only applies when a new Streaming query is started, and
that resuming will always pick up from where the query left off. See the docs for more
details."""

_REFUSED = {
    "auto.offset.reset": _NO_RESET,
    "key.deserializer": "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays with "
    "ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the keys.",
    "value.deserializer": "Kafka option 'value.deserializer' is not supported as values are deserialized as byte "
    "arrays with ByteArrayDeserializer. Use DataFrame operations to explicitly deserialize the values.",
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
}

_UNITS_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def read_consumer(options: Mapping[str, str]) -> tuple[ConsumerSettings, list[ConfigWarning]]:
    """The consumer that options like `kafka.bootstrap.servers` describe, and warnings of unknown keys.

    Keys and values are those of a Java consumer. Raises ConfigError with every problem found. Reads only the named key
    stores, and avoids any contact with a cluster.
    """
    warnings: list[ConfigWarning] = []
    reading = read_kafka_options(options, CONSUMER, warnings)
    client = read_client(reading, warnings)
    settings = ConsumerSettings(**read_fields(ConsumerSettings, reading), client=client)
    require_right(reading, warnings)
    return settings, warnings


def read_kafka_options(options: Mapping[str, str], table: KeyTable, warnings: list[ConfigWarning]) -> ConfigReader:
    """The options `kafka.*` as keys of `table`; other options are left out."""
    problems = Problems([])
    layer: dict[str, PropertyEntry] = {}
    for option, value in options.items():
        if not option.lower().startswith(PREFIX):
            continue
        name = option[len(PREFIX) :]
        entry = layer[name] = PropertyEntry(option, value, _PLACE, None, value)
        key = table.find_key(name)
        if key is None:
            warnings.append(entry.warning("unknown key, ignored", MistakeKind.UNKNOWN_KEY))
        else:
            problems.add_new(filter(None, [check_value(entry, key, warnings)]))
    return ConfigReader(layer, table, problems)


def read_client(reading: ConfigReader, warnings: list[ConfigWarning]) -> ClientSettings:
    """The connection settings of options `kafka.*`."""
    client_id = reading.text("client.id") or "twinlog-rows"
    return read_connection(reading, lambda name: PREFIX + name, _PLACE, warnings, client_id)


def require_right(reading: ConfigReader, warnings: list[ConfigWarning]) -> None:
    """Raise ConfigError with every problem found, if there is any."""
    if reading.problems.all():
        raise ConfigError(reading.problems.all(), warnings)


def consumer_of_cluster(path: str | Path, alias: str | None) -> ConsumerSettings:
    """The consumer of the flows in the file at `path` that read from the cluster `alias`.

    When all flows that read from the cluster are disabled, the connection settings of a flow to the cluster count.
    Raises ConfigError for a wrong file, and OptionError for an unknown cluster.
    """
    return of_cluster(
        path,
        alias,
        lambda flow: flow.consumer if flow.source == alias and flow.enabled else None,
        lambda flow: ConsumerSettings(flow.target_admin.client) if flow.target == alias else None,
    )


def of_cluster(path: str | Path, alias: str | None, *ways: Callable[[FlowSettings], T | None]) -> T:
    """The first result of `ways`, tried in their order on the flows of the file at `path`, for the cluster `alias`.

    Raises ConfigError for a wrong file, and OptionError when all ways return None.
    """
    config = load(path)
    known = ", ".join(config.clusters)
    if alias is None:
        raise OptionError(f"Option 'cluster' must be specified with 'twinlog.config': any of {known}")
    for way in ways:
        for flow in config.flows:
            found = way(flow)
            if found is not None:
                return found
    raise OptionError(f"Option 'cluster' is '{alias}', but {path} has flows of these clusters only: {known}")


def flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    """A boolean option. Raises OptionError for another value."""
    value = options.get(name, str(default)).strip()
    if value.lower() not in {"true", "false"}:
        raise OptionError(f'For input string: "{value}"; option {name} is true or false')
    return value.lower() == "true"


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The options of a reader. Either `topics`, `pattern` or `partitions` is set.

    `pattern` is a Java expression that is searched for in names. `max_trigger_delay_ms` is how long a micro-batch may
    wait for `min_offsets_per_trigger`. Offsets are requested `offset_tries` times, with pauses of `offset_retry_ms`. A
    task gives up when a partition is silent for `poll_timeout_ms`.
    """

    consumer: ConsumerSettings
    starting: Limit
    ending: Limit
    topics: tuple[TopicName, ...] = ()
    pattern: JavaPattern | None = None
    partitions: frozenset[TopicPartition] = frozenset()
    headers: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: float = 900_000
    offset_tries: int = 3
    offset_retry_ms: int = 1_000
    poll_timeout_ms: int = 120_000

    @property
    def read_committed(self) -> bool:
        return self.consumer.isolation_level == "read_committed"


def read_options(given: Mapping[str, str], use: Use) -> TopicOptions:
    """Read and check all options; names are found in any case. Raises OptionError and ConfigError."""
    return _Options({key.lower(): value for key, value in given.items()}, use).read()


def config_file(options: Mapping[str, str], kafka: Collection[str]) -> str | None:
    """The file of `twinlog.config`, or None. Raises OptionError for options `kafka.*` beside it."""
    path = options.get("twinlog.config")
    if path is not None and kafka:
        raise OptionError(
            f"Option '{min(kafka)}' cannot be specified with 'twinlog.config', whose file has all that is needed to "
            "connect"
        )
    return path


class _Options:
    def __init__(self, given: Mapping[str, str], use: Use) -> None:
        self.given = given
        self.use = use

    def read(self) -> TopicOptions:
        if self.use == "stream":
            for key, what in (("endingoffsets", "offset"), ("endingoffsetsbytimestamp", "timestamp")):
                if key in self.given:
                    raise OptionError(f"ending {what} not valid in streaming queries")
        starting = self._limit("starting", EarliestOrLatestRangeLimit(LATEST if self.use == "stream" else EARLIEST))
        ending = self._limit("ending", EarliestOrLatestRangeLimit(LATEST))
        if self.use == "batch":
            _check_batch_limits(starting, ending)
        topics, pattern, partitions = self._strategy()
        most, least = self._positive("maxoffsetspertrigger", None), self._positive("minoffsetspertrigger", None)
        min_partitions = self._positive("minpartitions", "minPartitions must be positive")
        max_records = self._positive("maxrecordsperpartition", "maxrecordsperpartition must be positive")
        consumer = self._consumer()
        if least is not None and most is not None and least > most:
            raise OptionError(
                f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most})."
            )
        if self.use == "batch":
            for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"):
                if name.lower() in self.given:
                    log.warning("TW-DATA-04: %s option ignored in batch queries", name)
        return TopicOptions(
            consumer=consumer,
            starting=starting,
            ending=ending,
            topics=topics,
            pattern=pattern,
            partitions=partitions,
            headers=flag(self.given, "includeheaders"),
            fail_on_data_loss=flag(self.given, "failondataloss", True),
            min_partitions=min_partitions,
            max_records_per_partition=max_records,
            max_offsets_per_trigger=most,
            min_offsets_per_trigger=least,
            max_trigger_delay_ms=self._duration_ms("maxtriggerdelay", "15m"),
            offset_tries=self._number("fetchoffset.numretries", 3),
            offset_retry_ms=self._number("fetchoffset.retryintervalms", 1_000),
            poll_timeout_ms=self._number("kafkaconsumer.polltimeoutms", 120_000),
        )

    def _number(self, name: str, default: int) -> int:
        value = self.given.get(name)
        if value is None:
            return default
        try:
            return int(value)
        except ValueError:
            raise OptionError(f'For input string: "{value}"; option {name} is a whole number') from None

    def _positive(self, name: str, refusal: str | None) -> int | None:
        if name not in self.given:
            return None
        number = self._number(name, 0)
        if number <= 0 and refusal is not None:
            raise OptionError(refusal)
        return number

    def _duration_ms(self, name: str, default: str) -> float:
        """A duration as in Spark's `timeStringAsMs`: a number alone is milliseconds."""
        value = self.given.get(name, default).strip().lower()
        found = re.fullmatch(r"(-?\d+)([a-z]*)", value)
        if found is None or found[2] not in _UNITS_MS:
            raise OptionError(
                f"Failed to parse time string: {value}; time must be specified as seconds (s), milliseconds (ms), "
                "microseconds (us), minutes (m or min), hour (h), or day (d). E.g. 50s, 100ms, or 250us."
            )
        return int(found[1]) * _UNITS_MS[found[2]]

    def _strategy(self) -> tuple[tuple[TopicName, ...], JavaPattern | None, frozenset[TopicPartition]]:
        written = [name for name in STRATEGIES if name in self.given]
        if len(written) != 1:
            one = "One" if not written else "Only one"
            can = "must" if not written else "can"
            raise OptionError(
                f"{one} of the following options {can} be specified for Kafka source: {_NAMES}. "
                "See the docs for more details."
            )
        value = self.given[written[0]]
        if written[0] == "assign":
            if not value.strip().startswith("{"):
                raise OptionError(f"No topicpartitions to assign as specified value for option 'assign' is '{value}'")
            return (), None, read_partitions(value)
        if written[0] == "subscribe":
            topics = tuple(dict.fromkeys(TopicName(name.strip()) for name in value.split(",") if name.strip()))
            if not topics:
                raise OptionError(f"No topics to subscribe to as specified value for option 'subscribe' is '{value}'")
            return topics, None, frozenset()
        if not value.strip():
            raise OptionError(
                f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{value}'"
            )
        try:
            return (), java_pattern(value.strip()), frozenset()
        except PatternError as error:
            raise OptionError(f"option 'subscribePattern' is an invalid regular expression: {error}") from None

    def _consumer(self) -> ConsumerSettings:
        kafka = {name: value for name, value in self.given.items() if name.startswith("kafka.")}
        for name, refusal in _REFUSED.items():
            if f"kafka.{name}" in kafka:
                raise OptionError(refusal)
        path = config_file(self.given, kafka)
        if path is not None:
            return consumer_of_cluster(path, self.given.get("cluster"))
        if "kafka.bootstrap.servers" not in kafka:
            raise OptionError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer")
        if "kafka.group.id" in kafka:
            log.warning(
                "TW-DATA-02: option kafka.group.id is ignored: partitions are assigned directly, by-passing consumer "
                "groups"
            )
        consumer, warnings = read_consumer(kafka)
        for warning in warnings:
            log.warning("TW-DATA-03: %s", warning)
        return consumer

    def _limit(self, side: Literal["starting", "ending"], default: Limit) -> Limit:
        """The limit of a side; among the three options, the first option that is present counts."""
        strategy = self.given.get("startingoffsetsbytimestampstrategy", "error").upper()
        if strategy not in {"ERROR", "LATEST"}:
            raise OptionError(f"unknown value for '{strategy}'; startingOffsetsByTimestampStrategy is error or latest")
        or_latest = strategy == "LATEST" or side == "ending"
        timestamp = self.given.get(f"{side}timestamp")
        if timestamp is not None:
            try:
                return GlobalTimestampRangeLimit(int(timestamp.strip()), or_latest)
            except ValueError:
                raise OptionError(f"Expected a single long value, got {timestamp.strip()}") from None
        by_timestamp = self.given.get(f"{side}offsetsbytimestamp")
        if by_timestamp is not None:
            return SpecificTimestampRangeLimit(read_timestamps(by_timestamp.strip()), or_latest)
        offsets = self.given.get(f"{side}offsets")
        if offsets is None:
            return default
        word = offsets.strip().lower()
        if word in {"latest", "earliest"}:
            return EarliestOrLatestRangeLimit(LATEST if word == "latest" else EARLIEST)
        found = read_offsets(offsets.strip())
        for partition, offset in sorted(found.items()):
            if offset < EARLIEST:
                raise OptionError(
                    f"{side}Offsets: {partition} has {offset}; an offset is 0 or more, -1 the latest, -2 the earliest"
                )
        return SpecificOffsetRangeLimit(found)


def _check_batch_limits(starting: Limit, ending: Limit) -> None:
    if starting == EarliestOrLatestRangeLimit(LATEST):
        raise OptionError("starting offset can't be latest for batch queries on Kafka")
    if ending == EarliestOrLatestRangeLimit(EARLIEST):
        raise OptionError("ending offset can't be earliest for batch queries on Kafka")
    if isinstance(starting, SpecificOffsetRangeLimit):
        for partition, offset in sorted(starting.offsets.items()):
            if offset == LATEST:
                raise OptionError(f"startingOffsets for {partition} can't be latest for batch queries on Kafka")
    if isinstance(ending, SpecificOffsetRangeLimit):
        for partition, offset in sorted(ending.offsets.items()):
            if offset == EARLIEST:
                raise OptionError(f"ending offset for {partition} can't be earliest for batch queries on Kafka")
    if isinstance(starting, SpecificOffsetRangeLimit) and isinstance(ending, SpecificOffsetRangeLimit):
        _check_pairs(starting.offsets, ending.offsets, "offset")
    if isinstance(starting, SpecificTimestampRangeLimit) and isinstance(ending, SpecificTimestampRangeLimit):
        _check_pairs(starting.timestamps, ending.timestamps, "timestamp")


def _check_pairs(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], what: str) -> None:
    if starts.keys() != ends.keys():
        raise OptionError(
            "The specified start offset and end offset should have the same topic-partitions. Topic-partitions for "
            f"start offset: {as_set(starts)}, topic-partitions for end offset: {as_set(ends)}."
        )
    for partition, start in sorted(starts.items()):
        end = ends[partition]
        if start > end and start >= 0 and end >= 0:
            raise OptionError(
                f"The specified start {what} {start} is greater than the end {what} {end} for topic "
                f"{partition.topic} partition {partition.partition}."
            )
