"""What a run would do, found out without doing it, and how two clusters differ. Reads clusters, changes none."""
