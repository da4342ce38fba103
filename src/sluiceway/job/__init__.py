"""The driver: planner, epoch loop, recovery, lifecycle."""
