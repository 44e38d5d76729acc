"""A running flow: its life cycle, its grants, and its periodic jobs."""
