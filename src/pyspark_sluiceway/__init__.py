"""The Spark data source `sluiceway`: tables at a slot, in batches and as a stream.

Spark finds it by its package's name; nothing is to be registered.

    spark.read.format("sluiceway").option("job", "orders.yaml").option("asOf", "slot:1204").load()
    spark.readStream.format("sluiceway").option("job", "orders.yaml").load()
"""

from pyspark_sluiceway.source import SluicewaySource
from pyspark_sluiceway.span_frames import read_spans

DefaultSource = SluicewaySource
"""The name by which Spark finds the source."""

__all__ = ["DefaultSource", "SluicewaySource", "read_spans"]
