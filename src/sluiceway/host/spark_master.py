"""Whether a standalone master accepts connections, checked before Spark waits for it silently."""

import socket

STANDALONE = "spark://"
_CONNECT_S = 5.0


def reachable_master(master: str) -> str:
    """The first server of `master` that accepts a connection. Called by `doctor` and `submit`.

    Args:
        master: `spark://host:port`, or several separated by commas.

    Returns:
        `host:port`.

    Raises:
        OSError: No server does; the error of the last one.
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
