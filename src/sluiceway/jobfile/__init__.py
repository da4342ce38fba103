"""The job file: its blocks, its checks, and the values made of it."""
