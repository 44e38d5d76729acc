"""Whether the worker in a container is healthy: ends with 0 or 1, for the image's HEALTHCHECK.

Asks TWINLOG_HEALTH_URL, else http://localhost:8083/health. A worker that wants a login is alive. Needs only Python.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

DEADLINE_S = 4.0
LOGIN_WANTED = 401


def main() -> None:
    """Ask once, and end this process."""
    url = os.environ.get("TWINLOG_HEALTH_URL", "http://localhost:8083/health")
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S):
            pass
    except urllib.error.HTTPError as error:
        if error.code != LOGIN_WANTED:
            sys.exit(f"{url} answers {error.code}: {error.read().decode(errors='replace')}")
    except OSError as error:
        sys.exit(f"{url} does not answer: {error}")


if __name__ == "__main__":
    main()
