"""Moves producers and consumers from one cluster to the other and back, step by step, with a journal of each step."""
