"""A small partitioner for tests: a region and a bucket of it, by two columns of a row."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sluiceway.partitioners.contract import Partitioner, PartitionTexts

PACKAGE_CODE = "from tools.region_partitioner import open_regions\n"


class Regions(Partitioner):
    """`city` up to the first `-`, and `id` by buckets; rows of the city `nowhere` have none."""

    def __init__(self, columns: Sequence[str], buckets: int) -> None:
        self._columns = columns
        self._buckets = buckets

    def assign(self, rows: pa.RecordBatch) -> PartitionTexts:
        city = rows.column("city")
        region = pc.replace_substring_regex(city, "-.*", "")
        ids = rows.column("id")
        bucket = pc.subtract(ids, pc.multiply(pc.divide(ids, self._buckets), self._buckets))
        nowhere = pc.indices_nonzero(pc.fill_null(pc.equal(city, "nowhere"), False))  # noqa: FBT003
        refused = dict.fromkeys(nowhere.to_pylist(), "nowhere is in no region")
        values = [region, bucket.cast(pa.string())]
        return PartitionTexts(values[: len(self._columns)], refused)


def open_regions(
    columns: Sequence[str], schema: pa.Schema, options: Mapping[str, str]
) -> Partitioner:
    if set(options) - {"buckets"}:
        raise ValueError("regions has the option buckets")
    if not 1 <= len(columns) <= 2:
        raise ValueError("regions fills one or two columns")
    if {"city", "id"} - set(schema.names):
        raise ValueError("regions needs the columns city and id")
    return Regions(columns, int(options.get("buckets", "4")))
