"""The job on a cluster: its Python environment as an archive, and its life there."""
