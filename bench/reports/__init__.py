"""Reports of a run: tables, results with their goals, notes and the machine."""
