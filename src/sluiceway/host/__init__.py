"""This machine: Java, processes, boot id."""
