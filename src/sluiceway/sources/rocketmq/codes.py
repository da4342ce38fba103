"""Codes of RocketMQ's remoting protocol that this client speaks."""

from enum import IntEnum


class Ask(IntEnum):
    """Codes of requests (`RequestCode.java`)."""

    PULL = 11
    QUERY_OFFSET = 14
    UPDATE_OFFSET = 15
    SEARCH_BY_TIME = 29
    MAX_OFFSET = 30
    MIN_OFFSET = 31
    ROUTE = 105
    CLUSTER = 106
    TOPICS = 206


class ResponseCode(IntEnum):
    """Codes of answers (`ResponseCode.java`, `RemotingSysResponseCode.java`)."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    NO_SUCH_GROUP = 26
    INVALID_PARAMETER = 29
    FLOW_CONTROL = 215
    GO_AWAY = 1500


BUSY = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.FLOW_CONTROL, ResponseCode.SERVICE_NOT_AVAILABLE}
)
"""The broker asks to come again later."""


PULL_SUSPEND = 2
"""A flag of a pull (`PullSysFlag.java`): the broker keeps it while there is nothing."""
PULL_SUBSCRIPTION = 4
"""The pull says itself what it wants."""

# Flags of a stored message (`MessageSysFlag.java`); plain numbers, they are read for each.
COMPRESSED = 1
BORN_HOST_V6 = 1 << 4
STORE_HOST_V6 = 1 << 5
BATCH = 1 << 6 | 1 << 7
"""Several messages stored as one, to be taken apart by who reads."""
COMPRESSION_SHIFT = 8
COMPRESSION_MASK = 7
MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
PERMISSION_READ = 4
