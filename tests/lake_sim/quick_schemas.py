"""The library reads the schema of each Avro file anew; all manifests of a world have a few."""

from functools import cache
from types import SimpleNamespace

from pyiceberg.avro import file
from pyiceberg.avro.file import AvroFileHeader
from pyiceberg.schema import Schema

_READ = AvroFileHeader.get_schema


@cache
def _schema(text: str) -> Schema:
    return _READ(SimpleNamespace(meta={file._SCHEMA_KEY: text}))


def _remembered(self: AvroFileHeader) -> Schema:
    return _schema(self.meta[file._SCHEMA_KEY])


def remember_schemas() -> None:
    """Have a schema that was read before not be read again in this process."""
    AvroFileHeader.get_schema = _remembered
