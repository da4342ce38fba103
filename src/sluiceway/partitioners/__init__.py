"""Partition values by a rule from outside: plug-ins that read whole rows."""
