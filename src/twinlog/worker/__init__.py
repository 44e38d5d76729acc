"""The process that runs flows: it elects the process of a flow, watches both clusters, and starts Spark queries."""
