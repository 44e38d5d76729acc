"""JVM options by which the JVM's second compiler (C2) only takes what runs hundreds of thousands of times."""

LATE = (
    # Compiling well what only starts once costs seconds of the start; what records go through gets there soon.
    *("-XX:Tier4InvocationThreshold=50000", "-XX:Tier4MinInvocationThreshold=6000"),
    *("-XX:Tier4CompileThreshold=150000", "-XX:Tier4BackEdgeThreshold=400000"),
)
