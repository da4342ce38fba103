"""Partition values by a rule of somebody else's: plug-ins that look at whole rows."""
