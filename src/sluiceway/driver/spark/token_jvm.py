"""Delegation tokens from name nodes, by Hadoop's own client in a JVM that lives for seconds.

Spark's JVM is not used: it has one login for everything, which on YARN is Spark's own.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError

from sluiceway.driver.spark.class_archive import QUICK_START
from sluiceway.errors import KerberosRefusedError, KerberosUnavailableError
from sluiceway.host.copied_files import path_here
from sluiceway.host.hdfs_tokens import KIND, HdfsToken
from sluiceway.host.java import find_java
from sluiceway.host.kerberos import KerberosLogin, realm_flag, what_to_do

_ANSWER_TIMEOUT_S = 60.0
_HA_SERVICE = "ha-hdfs:"
# Hadoop reads the realm from Java's Kerberos.
_OPENED = ("--add-exports", "--add-opens")
_KERBEROS = "java.security.jgss/sun.security.krb5=ALL-UNNAMED"


def fetch_tokens(login: KerberosLogin, config_dir: str, service: str) -> list[HdfsToken]:
    """Log in from the keytab and get new tokens of a name service. Takes some seconds.

    Args:
        login: Login of the job.
        config_dir: Folder of core-site.xml and hdfs-site.xml.
        service: `hdfs://name`, or `viewfs://name`, which has tokens of several name services.

    Raises:
        KerberosRefusedError: The realm or a name node refuses.
        KerberosUnavailableError: A KDC or a name node does not answer.
    """
    try:
        with _jvm(login, config_dir) as jvm:
            hadoop = jvm.org.apache.hadoop
            conf = hadoop.conf.Configuration()
            hadoop.security.UserGroupInformation.loginUserFromKeytab(
                login.principal, path_here(login.keytab)
            )
            return _tokens(jvm, conf, service, login.principal)
    except (Py4JNetworkError, Py4JError, OSError, ValueError) as error:
        raise KerberosUnavailableError(
            f"Hadoop's client did not answer: {type(error).__name__}",
            hint="is there memory for a further JVM of 128 MiB for some seconds?",
        ) from error


def _tokens(jvm: Any, conf: Any, service: str, renewer: str) -> list[HdfsToken]:
    files = jvm.org.apache.hadoop.fs.FileSystem.newInstance(jvm.java.net.URI(service), conf)
    store = jvm.org.apache.hadoop.security.Credentials()
    files.addDelegationTokens(renewer, store)
    found = []
    for token in store.getAllTokens().toArray():
        if str(token.getKind().toString()) != KIND:
            continue
        # Renewed only because the answer shows how long the token is valid.
        ends_ms = int(token.renew(conf))
        known_as = _known_as(service, str(token.getService().toString()))
        found.append(
            HdfsToken(
                known_as, bytes(token.getIdentifier()), bytes(token.getPassword()), ends_ms / 1000
            )
        )
    return found


def _known_as(service: str, told: str) -> str:
    """The name by which hdfs-native looks for a token: the address as the location has it."""
    scheme, _, authority = service.partition("://")
    if scheme != "hdfs" or told.startswith(_HA_SERVICE):
        return told
    # Java's client has resolved the host. Without a port the client takes it for a name service.
    return authority if ":" in authority else f"{_HA_SERVICE}{authority}"


def spark_class_path(own: Path, environment: Mapping[str, str]) -> tuple[Path, str]:
    """The jar of py4j, and a class path with Hadoop's client.

    Args:
        own: Folder of pyspark's jars; a packed environment has none.
        environment: Variables of this process. On YARN they name Spark's jars for containers.

    Raises:
        KerberosUnavailableError: Neither has them.
    """
    class_path = f"{own}/*" if own.is_dir() else environment.get("CLASSPATH", "")
    for entry in class_path.split(":"):
        folder = Path(entry.removesuffix("/*"))
        for jar in sorted(folder.glob("py4j-*.jar")):
            return jar, class_path
    raise KerberosUnavailableError(
        "Hadoop's client is not here: there are no jars of Spark",
        hint="run the driver with pyspark as pip installs it, or in YARN's containers",
    )


@contextmanager
def _jvm(login: KerberosLogin, config_dir: str) -> Iterator[Any]:
    py4j, class_path = spark_class_path(Path(pyspark.__file__).parent / "jars", os.environ)
    config = [realm_flag(path_here(login.config))] if login.config else []
    opened = [f"{option}={_KERBEROS}" for option in _OPENED]
    port, password, process = launch_gateway(
        jarpath=str(py4j),
        classpath=f"{config_dir}:{class_path}",
        javaopts=[*QUICK_START.split(), "-Xmx128m", *opened, *config],
        java_path=str(find_java().executable),
        die_on_exit=True,
        enable_auth=True,
        return_proc=True,
    )
    try:
        parameters = GatewayParameters(
            port=port,
            auth_token=password,
            read_timeout=_ANSWER_TIMEOUT_S,
            # Else py4j notifies each object of a JVM that has ended, with a traceback each.
            enable_memory_management=False,
        )
        gateway = JavaGateway(gateway_parameters=parameters)
        try:
            yield gateway.jvm
        except Py4JJavaError as error:
            # It answers only as long as that JVM lives.
            raise _failure(_innermost(error.java_exception)) from error
        finally:
            gateway.close()
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


def _failure(said: str) -> KerberosRefusedError | KerberosUnavailableError:
    text = f"HDFS gave no delegation token: {said}"
    todo = what_to_do(said)
    refused = "AccessControlException" in said or "LoginException" in said
    if refused or (todo and "KDC" not in said):
        return KerberosRefusedError(
            text, hint=todo or "may this user ask the name node for delegation tokens?"
        )
    return KerberosUnavailableError(text, hint=todo or "do KDC and name node answer?")


def _innermost(thrown: Any) -> str:
    while thrown.getCause() is not None:
        thrown = thrown.getCause()
    return str(thrown.toString()).partition("\n")[0]
