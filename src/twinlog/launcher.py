"""The file that spark-submit runs to start `twinlog`, as it takes only files.

    spark-submit --master spark://spark-1:7077 "$(twinlog launcher)" run mm2.properties

`twinlog launcher` prints the path of this file. In an image of Spark's it is a `local://` path.
"""

import os
import sys

# Python puts this file's folder first on its path, and that folder has our own package `kafka`. `pathlib` would take
# milliseconds, in which Ctrl-C prints a stack trace.
_HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [place for place in sys.path if os.path.realpath(place or ".") != _HERE]

from twinlog.__main__ import main  # noqa: E402 - only now

if __name__ == "__main__":
    main()
