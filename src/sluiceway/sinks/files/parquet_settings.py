"""How a table's Parquet files store timestamps: names of the setting and of its values."""

TIMESTAMPS = "timestamps"
INT96 = "int96"
MICROS = "micros"
