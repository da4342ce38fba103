"""DuckDB's answer to one query on one Iceberg table; runs in DuckDB's own environment.

`python lake_duckdb.py METADATA_FILE SQL`, with `lake` as the table's name in the SQL. Prints JSON.
Nothing is downloaded: the extensions are packages beside DuckDB's.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import duckdb


def main() -> int:
    """Load the extensions, ask, print."""
    metadata, sql = sys.argv[1:]
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        spec = find_spec(f"duckdb_extension_{name}")
        (folder,) = spec.submodule_search_locations
        (extension,) = Path(folder).rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    lake = connection.sql("SELECT * FROM iceberg_scan($metadata)", params={"metadata": metadata})
    rows = lake.query("lake", sql).fetchall()
    print(json.dumps([[int(value) for value in row] for row in rows]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
