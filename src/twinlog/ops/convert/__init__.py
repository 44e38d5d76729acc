"""`twinlog convert`: one form of a mirror as another form: properties, connectors with their worker, a resource."""
