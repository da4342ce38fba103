"""JSON payloads -> typed Arrow columns, exactly."""
