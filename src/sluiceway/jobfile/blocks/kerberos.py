"""Block of a job file for Kerberos, as a frozen value."""

import re
from typing import Annotated

from pydantic import AfterValidator

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.stores import AbsolutePath
from sluiceway.jobfile.blocks.values import Line, wrong

# A name that begins with a dash would be an option of `kinit`.
_PRINCIPAL = re.compile(r"[A-Za-z0-9_.$][A-Za-z0-9_.$-]*(/[A-Za-z0-9_.-]+)?@[A-Za-z0-9_.-]+")


def check_principal(text: str) -> str:
    """Check a principal with its realm, in the form of `kinit`."""
    if not _PRINCIPAL.fullmatch(text):
        raise wrong("`name@REALM` or `name/host@REALM`", "write what `klist -kt KEYTAB` shows")
    return text


Principal = Annotated[Line, AfterValidator(check_principal)]


class KerberosSpec(Block):
    """The login of the job: of its driver and its tasks, at HDFS, metastore and Kafka.

    Without this block it is the process's ticket cache, which another program renews.

    Attributes:
        principal: Principal of the login, `name@REALM`.
        keytab: Keytab file of the principal, on every machine that runs tasks.
        config: File in place of /etc/krb5.conf; None takes the machine's own.
    """

    principal: Principal
    keytab: AbsolutePath
    config: AbsolutePath | None = None


class MetastoreKerberos(Block):
    """A metastore that wants a login with Kerberos.

    Attributes:
        service_principal: Kerberos principal of the metastore; `_HOST` stands for the host of its
            address.
    """

    service_principal: Principal

    def options(self) -> tuple[tuple[str, str], ...]:
        """The block as options of a client."""
        return (("service_principal", self.service_principal),)
