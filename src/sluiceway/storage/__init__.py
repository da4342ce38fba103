"""Storage: exclusive puts and publishes; one module per file system."""
