"""`spark-defaults.conf`: settings that count where no others are given."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path


def defaults_file() -> Path:
    """Where Spark reads its defaults; the file need not exist."""
    place = os.environ.get("SPARK_CONF_DIR")
    return Path(place or Path(os.environ.get("SPARK_HOME") or _installed(), "conf"), "spark-defaults.conf")


def _installed() -> str:
    """Where pip has put Spark; its scripts take that for their home where no other is named."""
    spec = find_spec("pyspark")
    return "" if spec is None or spec.origin is None else str(Path(spec.origin).parent)


def file_settings() -> dict[str, str]:
    """What that file has; nothing where there is none."""
    try:
        lines = defaults_file().read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    parts = [re.split(r"\s*[=:\s]\s*", line.strip(), maxsplit=1) for line in lines]
    return {key: rest[0].strip() for key, *rest in parts if rest and not key.startswith(("#", "!"))}
