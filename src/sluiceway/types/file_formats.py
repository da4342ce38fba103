"""File formats of tables and what each may be compressed by: the data for checks and docs."""

from collections.abc import Mapping

PARQUET = "parquet"
COMPRESSIONS: Mapping[str, tuple[str, ...]] = {
    PARQUET: ("zstd", "snappy", "gzip"),
    "orc": ("zstd", "snappy", "gzip", "lz4", "none"),
    "text": ("gzip", "snappy", "lz4", "none"),
    "json": ("gzip", "snappy", "lz4", "none"),
    "csv": ("gzip", "snappy", "lz4", "none"),
    "avro": ("snappy", "gzip", "zstd", "none"),
}
"""By the format's name: names of compressions, the default first."""


def compression_problem(file_format: str, compression: str) -> str | None:
    """Why files of a format cannot have a compression, or None."""
    allowed = COMPRESSIONS[file_format]
    if compression in allowed:
        return None
    why = ""
    if compression == "zstd":
        why = ": readers of such files would need Hadoop's native library for it"
    return f"{file_format} files are {', '.join(allowed)}, not {compression}{why}"
