"""A log in a SQLite file as a source of Sluiceway: an example of a plug-in."""
