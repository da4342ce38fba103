"""Every logical type of Debezium and Kafka Connect, and what readers of tables get of it."""
