"""The job file: models, loader with line:column errors."""
