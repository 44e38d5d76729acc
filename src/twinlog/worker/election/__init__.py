"""The election of the process that runs a flow, among all processes with the same file."""
