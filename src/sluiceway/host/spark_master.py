"""Whether a standalone master takes connections, told before Spark waits for it in silence."""

import socket

STANDALONE = "spark://"
_CONNECT_S = 5.0


def reachable_master(master: str) -> str:
    """The first server of `master` that takes a connection. Called by `doctor` and `submit`.

    Args:
        master: `spark://host:port`, several with commas between.

    Returns:
        `host:port`.

    Raises:
        OSError: None does; of the last one.
    """
    why = OSError("no server is named")
    for server in master.removeprefix(STANDALONE).split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _CONNECT_S):
                return server
        except OSError as error:
            why = error
    raise why
