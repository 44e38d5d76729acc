"""Files and connectors of MirrorMaker 2 in the shapes that are found in public, run by it and by twinlog.

Each file is written anew after shapes of public repositories and manuals: no name, host or secret of anybody is in it.
"""
