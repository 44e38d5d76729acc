"""`twinlog canary`: a flow of twinlog beside a running MirrorMaker 2, and the comparison of both."""
