"""Encryption of a metastore's connection."""

import ssl
from collections.abc import Mapping

from sluiceway.errors import UnhealthyEnvironmentError


def tls_context(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """What a connection is encrypted with; None when it is not to be.

    Called for each new connection: files that were renewed meanwhile count.

    Args:
        options: `tls`, `ca_file`, `cert_file`, `key_file`, as the job file's connection has them.

    Raises:
        UnhealthyEnvironmentError: A file is missing, or is no certificate or key.
    """
    if options.get("tls") != "true":
        return None
    cert_file = options.get("cert_file")
    try:
        context = ssl.create_default_context(cafile=options.get("ca_file"))
        if cert_file is not None:
            # Without a password here, an encrypted key would be asked for on the terminal.
            context.load_cert_chain(cert_file, options.get("key_file"), password="")
    except (OSError, ValueError) as error:
        named = ", ".join(options[name] for name in _FILES if name in options)
        raise UnhealthyEnvironmentError(
            f"a certificate for the metastore cannot be used: {error}",
            where=named,
            hint="check ca_file, cert_file and key_file of its connection on this machine",
        ) from error
    return context


_FILES = ("ca_file", "cert_file", "key_file")
