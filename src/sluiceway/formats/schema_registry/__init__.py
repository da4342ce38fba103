"""Schemas by id, from a server with the REST API of the Confluent Schema Registry."""
