"""Protobuf payloads -> typed columns, exactly."""
