"""`twinlog convert`: writes a mirror in another form: properties, connectors with their worker, a resource."""
