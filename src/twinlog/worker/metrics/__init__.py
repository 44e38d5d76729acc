"""The measurements, under the names of MirrorMaker 2 and Strimzi, and under twinlog's own names."""
