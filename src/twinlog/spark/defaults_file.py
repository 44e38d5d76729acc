"""`spark-defaults.conf`: settings that count where nobody gives others."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home


def defaults_file() -> Path:
    """Where Spark reads settings that nobody gave it; the file need not be there."""
    place = os.environ.get("SPARK_CONF_DIR")
    return Path(place or Path(_find_spark_home(), "conf"), "spark-defaults.conf")


def file_settings() -> dict[str, str]:
    """What that file has; nothing where there is none."""
    try:
        lines = defaults_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    parts = [re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1) for line in lines]
    return {key: rest[0].strip() for key, *rest in parts if rest and not key.startswith(("#", "!"))}
