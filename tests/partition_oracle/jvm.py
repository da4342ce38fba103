"""Spark's own escaping of the same values, in the real JVM. A process of its own.

`ExternalCatalogUtils` is what Spark itself names partition folders with. It is called by
reflection on columns, a value a row, so that a million calls do not cross from Python.
"""

import json
import sys
from pathlib import Path

from sluiceway.driver.spark.session import start_session
from sluiceway.host.java import find_java

_CLASS = "org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils"
_QUERY = f"""
SELECT text, folder,
  java_method('{_CLASS}', 'getPartitionPathString', 'place', text) AS theirs,
  java_method('{_CLASS}', 'unescapePathName', substr(folder, length('place=') + 1)) AS back
FROM kept
"""  # noqa: S608 - names of our own


def main() -> int:
    """Compare the folders of a Parquet file `text, folder`; prints counts as JSON."""
    session, log = start_session("partition-values", "local[2]", {}, find_java())
    try:
        session.read.parquet(sys.argv[1]).createOrReplaceTempView("kept")
        compared = session.sql(_QUERY)
        compared.createOrReplaceTempView("compared")
        counts = session.sql(
            "SELECT count(*), count_if(NOT theirs <=> folder), count_if(NOT back <=> text) "
            "FROM compared"
        ).collect()[0]
        wrong = session.sql(
            "SELECT * FROM compared WHERE NOT theirs <=> folder OR NOT back <=> text LIMIT 20"
        ).collect()
    finally:
        session.stop()
    Path(log).unlink(missing_ok=True)
    examples = [repr(tuple(row)) for row in wrong]
    print(json.dumps({"values": counts[0], "folders": counts[1], "back": counts[2],
                      "examples": examples}))  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
