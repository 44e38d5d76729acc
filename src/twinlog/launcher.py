"""What spark-submit is given to start `twinlog`: it takes a file, and no module.

    spark-submit --master spark://spark-1:7077 "$(twinlog launcher)" run mm2.properties

`twinlog launcher` prints the path of this file. In an image of Spark's it is a `local://` path.
"""

import os
import sys

# Python puts the folder of the file it is given first, where `kafka` is a package of ours. `pathlib` would take
# milliseconds, in which Ctrl-C prints a stack trace.
_HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:] = [place for place in sys.path if os.path.realpath(place or ".") != _HERE]

from twinlog.__main__ import main  # noqa: E402 - only now

if __name__ == "__main__":
    main()
