"""Lake tables by key: the last change of each key."""
