"""Kafka as a source, through librdkafka."""
