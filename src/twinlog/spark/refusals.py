"""Makes a sentence of a complaint of Spark, or of the Java below it, about a setting: its name, origin and fault."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from twinlog.spark.settings import defaults_file, file_settings

MASTER = "spark.master"
_CLASS = re.compile(r"^(?:Exception in thread \"[^\"]*\" )?(?:[a-z][\w$]*\.)+(?P<simple>[A-Z][\w$]*): ")
_FRAME = re.compile(r"^(?:\s+at |\s*Caused by: |\s*Suppressed: |\s+\.\.\. \d+ )")
_NOISE = (
    *("WARNING: ", "NOTE: ", "Picked up ", "Using Spark's ", "Setting default ", "To adjust logging "),
    "Error occurred during initialization of ",
)
_PLAIN = frozenset({"", "true", "false", "none"})
"""Values that too many settings share to identify a setting."""

_SECRET = re.compile("secret|password|token|access[.]?key", re.IGNORECASE)
"""Settings with values that Spark hides (spark.redaction.regex)."""


class SettingFinder:
    """Finds the setting that a reason is about; it may be a setting of `spark-defaults.conf`.

    `settings` are all settings with which Spark was started. `given` has the way in which each of the user's settings
    was given (`--conf`).
    """

    def __init__(self, settings: Mapping[str, str], given: Mapping[str, str]) -> None:
        self._settings = settings
        self._given = given
        self._file = file_settings()

    def key(self, reason: str) -> str | None:
        """The setting whose key the reason has, else whose value it has, else whose words it has; None otherwise.

        The last form is spark-submit's: "Executor memory must be a positive number".
        """
        values = {**self._file, **self._settings}
        # A setting that was given by the user is more likely wrong than a default.
        order = list(dict.fromkeys((*self._given, *self._file, *self._settings)))
        named = [key for key in order if re.search(rf"(?<![\w.]){re.escape(key)}(?!\w|\.\w)", reason)]
        # Values of defaults may appear anywhere in the text; for example, the application's name appears in paths.
        written = list(dict.fromkeys((*self._given, *self._file)))
        by_value = [key for key in written if _names(values.get(key, ""), reason)]
        words = set(re.findall(r"[a-z]+", reason.lower()))
        by_words = [key for key in written if words.issuperset(_words(key))]
        by_words.sort(key=lambda key: -len(_words(key)))
        return next(iter((*named, *by_value, *by_words)), None)

    def sentence(self, reason: str) -> str:
        """`reason` after its setting, with the value and the origin of the setting."""
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
    """The reason that an ended JVM, or an error of Java's, gives; None without a reason.

    It is the bare message of its exception; otherwise it is the first line with information.
    """
    printed = [line.rstrip() for line in lines if line.strip() and not line.startswith(_NOISE)]
    at = next((at for at, line in enumerate(printed) if _CLASS.match(line)), None)
    if at is None:
        plain = [line for line in printed if not _FRAME.match(line)]
        return plain[0].removeprefix("Error: ").strip() if plain else None
    text = _CLASS.sub("", printed[at])
    # A message of a single word needs the class of the exception, which names the fault.
    message = [text if " " in text else _CLASS.sub(r"\g<simple>: ", printed[at])]
    for line in printed[at + 1 :]:
        if _FRAME.match(line):
            break
        message.append(line.strip())
    return " ".join(message)


def reason_in(error: Exception) -> str:
    """The reason in an error that py4j or pyspark raises for an error of Java's, or by itself."""
    lines = str(error).splitlines()
    # py4j's own sentence precedes a line that begins with a colon.
    begin = next((at for at, line in enumerate(lines) if line.startswith(": ")), 0)
    return reason_of(line.removeprefix(": ") for line in lines[begin:]) or repr(error)


def _names(value: str, reason: str) -> bool:
    word = value.strip()
    if word.lower() in _PLAIN or len(word) < 2:
        return False
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)|-Xmx{re.escape(word)}", reason) is not None


def _words(key: str) -> list[str]:
    """The words of a key: `spark.executor.memoryOverhead` is executor, memory and overhead."""
    return re.findall(r"[a-z]+", re.sub(r"([A-Z])", r" \1", key.removeprefix("spark.")).lower())
