"""The process: run, loop, places of routes, stop, status, discovery, Spark."""
