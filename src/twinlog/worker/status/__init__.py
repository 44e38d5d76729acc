"""The status of a running flow: sums of the reports of its copiers, held partitions, outages, metrics."""
