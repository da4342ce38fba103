"""The process: run, loop, state of routes, stop, status, discovery, Spark."""
