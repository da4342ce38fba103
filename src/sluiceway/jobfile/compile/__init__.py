"""From a checked job file to the driver's values: routes with all defaults."""
