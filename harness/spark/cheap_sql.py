"""Has the JVMs that evaluate `transform.sql` start cheaply; the class archive of Spark's own JVM serves them anyway."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from harness.spark.cluster import CHEAP_JVM

_VARIABLE = "JDK_JAVA_OPTIONS"


@contextmanager
def cheap_sql() -> Iterator[None]:
    """What evaluates queries starts cheaply meanwhile: a test ends long before the code is worth compiling well."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = CHEAP_JVM
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
