"""`python -m conformance.corpus`: the suite of files, see `conformance.corpus.command`."""

from __future__ import annotations

import sys

from conformance.corpus.command import main

if __name__ == "__main__":
    sys.exit(main())
