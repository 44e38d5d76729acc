"""The stage of items: two clusters, their load, and the meters of processes and log ends."""
