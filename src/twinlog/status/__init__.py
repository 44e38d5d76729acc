"""What is known of flows and consumer groups from the topics and groups of their clusters, wherever they run."""
