"""A checked job file becomes what the driver needs: routes with all defaults."""
