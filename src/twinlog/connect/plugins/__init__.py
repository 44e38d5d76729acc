"""The plugins of the worker: MirrorMaker 2's three connectors, what their keys are, and what a configuration asks."""
