"""Avro payloads -> typed columns, exactly."""
