"""What operators see of flows: progress reports."""
