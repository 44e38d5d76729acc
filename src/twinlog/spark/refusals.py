"""One sentence of what Spark, or the Java below it, has against a setting: which one, where it was made, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from twinlog.spark.cluster_settings import defaults_file, file_settings

MASTER = "spark.master"
_CLASS = re.compile(r"^(?:Exception in thread \"[^\"]*\" )?(?:[a-z][\w$]*\.)+(?P<simple>[A-Z][\w$]*): ")
_FRAME = re.compile(r"^(?:\s+at |\s*Caused by: |\s*Suppressed: |\s+\.\.\. \d+ )")
_NOISE = ("WARNING: ", "NOTE: ", "Picked up ", "Using Spark's ", "Setting default ", "To adjust logging ")
_PLAIN = frozenset({"", "true", "false", "none"})
"""Values of too many settings to know which one is meant."""

_SECRET = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)
"""Settings whose values Spark never shows (spark.redaction.regex)."""


class SettingFinder:
    """Finds the setting that a reason is about; a setting in `spark-defaults.conf` may be the one.

    `settings` are all that Spark was started with, `given` is how those of the user were given (`--conf`).
    """

    def __init__(self, settings: Mapping[str, str], given: Mapping[str, str]) -> None:
        self._settings = settings
        self._given = given
        self._file = file_settings()

    def key(self, reason: str) -> str | None:
        """The setting that is named, or else has a value that is, or else whose words are; None when none is found.

        The last is how spark-submit writes: "Executor memory must be a positive number".
        """
        values = {**self._file, **self._settings}
        # A setting that was given by the user is more likely wrong than a default.
        order = list(dict.fromkeys((*self._given, *self._file, *self._settings)))
        named = [key for key in order if re.search(rf"(?<![\w.]){re.escape(key)}(?!\w|\.\w)", reason)]
        # Values of defaults may appear anywhere in the text, as the application's name does in paths.
        written = list(dict.fromkeys((*self._given, *self._file)))
        by_value = [key for key in written if _names(values.get(key, ""), reason)]
        words = set(re.findall(r"[a-z]+", reason.lower()))
        by_words = [key for key in written if words.issuperset(_words(key))]
        by_words.sort(key=lambda key: -len(_words(key)))
        return next(iter((*named, *by_value, *by_words)), None)

    def sentence(self, reason: str) -> str:
        """`reason` after its setting, with the value and where that was set."""
        key = self.key(reason)
        if key is None:
            return reason
        if key in self._given:
            origin = self._given[key]
        else:
            origin = "set by twinlog" if key in self._settings else f"in {defaults_file()}"
        value = "(hidden)" if _SECRET.search(key) else self._settings.get(key, self._file.get(key, ""))
        return f"{key} = {value} ({origin}): {reason}"


def reason_of(lines: Iterable[str]) -> str | None:
    """What a JVM that ended, or an error of Java's, reports of itself; None when that is nothing.

    The message of its exception, without class and stack trace; else the first line that is not noise.
    """
    printed = [line.rstrip() for line in lines if line.strip() and not line.startswith(_NOISE)]
    at = next((at for at, line in enumerate(printed) if _CLASS.match(line)), None)
    if at is None:
        plain = [line for line in printed if not _FRAME.match(line)]
        return plain[0].removeprefix("Error: ").strip() if plain else None
    text = _CLASS.sub("", printed[at])
    # Of a single word only the exception names what is wrong with it.
    message = [text if " " in text else _CLASS.sub(r"\g<simple>: ", printed[at])]
    for line in printed[at + 1 :]:
        if _FRAME.match(line):
            break
        message.append(line.strip())
    return " ".join(message)


def reason_in(error: Exception) -> str:
    """The reason in an error that py4j or pyspark raises for a Java one, or for one of their own."""
    lines = str(error).splitlines()
    # py4j's own sentence stands before a colon on a line of its own.
    begin = next((at for at, line in enumerate(lines) if line.startswith(": ")), 0)
    return reason_of(line.removeprefix(": ") for line in lines[begin:]) or repr(error)


def _names(value: str, reason: str) -> bool:
    word = value.strip()
    if word.lower() in _PLAIN or len(word) < 2:
        return False
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)|-Xmx{re.escape(word)}", reason) is not None


def _words(key: str) -> list[str]:
    """`spark.executor.memoryOverhead` is executor, memory and overhead."""
    return re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", key.removeprefix("spark.")).lower())
