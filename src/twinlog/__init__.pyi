from twinlog.mirroring import Mirroring as Mirroring
from twinlog.mirroring import run as run
from twinlog.mirroring import start as start

__version__: str
