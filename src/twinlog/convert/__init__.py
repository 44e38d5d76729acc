"""From one form of a mirror's configuration to another: a properties file, connectors with their worker, a resource."""
