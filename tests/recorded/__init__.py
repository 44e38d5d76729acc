"""What Kafka's own classes answer, recorded once; unit tests compare with it and need no Java.

`python -m tests.recorded` asks again, with the jars the harness fetches.
"""
