"""Real brokers, real MirrorMaker 2 and load, as child processes on loopback; for tests, the demo and the benchmark."""
