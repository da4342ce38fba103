"""Schemas by id, from a server that speaks the REST API of the Confluent Schema Registry."""
