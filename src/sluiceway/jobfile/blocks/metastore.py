"""Blocks of a job file for Hive Metastores and Kerberos, as frozen values."""

import re
from typing import Annotated

from pydantic import AfterValidator, model_validator

from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.stores import AbsolutePath
from sluiceway.jobfile.blocks.values import Line, ThriftUri, wrong

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


class MetastoreTls(Block):
    """An encrypted connection to a metastore, whose certificate has to name its host.

    Attributes:
        ca_file: PEM file of the authorities to trust, on the driver; None takes the machine's.
        cert_file: PEM file of a certificate of our own, for a proxy that asks for one; None sends
            none.
        key_file: PEM file of the key; None if `cert_file` has it.
    """

    ca_file: AbsolutePath | None = None
    cert_file: AbsolutePath | None = None
    key_file: AbsolutePath | None = None

    @model_validator(mode="after")
    def _key_of_a_certificate(self) -> "MetastoreTls":
        if self.key_file is not None and self.cert_file is None:
            raise wrong("`cert_file` with `key_file`", "add `cert_file`, or remove `key_file`")
        return self

    def options(self) -> tuple[tuple[str, str], ...]:
        """The block as options of a client: names and values as text, in order."""
        given = ((name, getattr(self, name)) for name in type(self).model_fields)
        return (*((name, path) for name, path in given if path is not None), ("tls", "true"))


class MetastoreConnection(Block):
    """How to reach a Hive Metastore.

    Attributes:
        uri: Thrift address, `thrift://host:port`, several with commas between.
        tls: Encryption; None without.
        kerberos: A login by SASL, which may encrypt too; None without.
    """

    uri: ThriftUri
    tls: MetastoreTls | None = None
    kerberos: MetastoreKerberos | None = None

    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of the metastore for a client, without its address."""
        return metastore_options(self.tls, self.kerberos)


def metastore_options(
    tls: MetastoreTls | None, kerberos: MetastoreKerberos | None
) -> tuple[tuple[str, str], ...]:
    """Client options of the blocks `tls` and `kerberos` of a metastore's connection."""
    given = (each for each in (tls, kerberos) if each is not None)
    return tuple(pair for each in given for pair in each.options())
