"""The items of the benchmark: their kinds, their goals, and the catalogue."""
