"""Mirrors beside twinlog and MirrorMaker 2: loops on client libraries, Spark, and MirrorMaker 1."""
