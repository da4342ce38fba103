"""How the client of a lake catalog reaches files: by the route's own stores."""

from sluiceway.storage.access import NO_STORES, Stores
from sluiceway.types.strict_json import decode, encode

FILE_ACCESS_PROPERTY = "py-io-impl"
"""By which the client of a catalog finds its file access."""
FILE_ACCESS = "sluiceway.sinks.iceberg.catalog.store_files.StoreFileIO"
STORES_PROPERTY = "sluiceway.stores"


def stores_setting(stores: Stores) -> str:
    """Stores as one setting of a catalog. May hold secrets: never logged."""
    return encode(stores).decode()


def parse_stores(setting: str | None) -> Stores:
    """What `stores_setting` made; as the environment says where there is none."""
    return NO_STORES if setting is None else decode(setting.encode(), Stores)
