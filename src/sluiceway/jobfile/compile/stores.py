"""The connections of a job file for the stores of a route's tables, and its Kerberos login."""

from collections.abc import Iterator, Mapping

from sluiceway.host.kerberos import KerberosLogin
from sluiceway.jobfile.blocks.block import Block
from sluiceway.jobfile.blocks.connections import ConnectionSpec
from sluiceway.jobfile.blocks.models import RouteSpec
from sluiceway.jobfile.blocks.values import revealed
from sluiceway.plugins import PluginGroup, plugin_names
from sluiceway.storage.access import HDFS, S3, StoreAccess, Stores

SERVICE_PRINCIPAL = "service_principal"
Options = tuple[tuple[str, str], ...]


def job_login(spec: RouteSpec) -> KerberosLogin | None:
    """The login of a job; None where it has none of its own."""
    found = spec.kerberos
    if found is None:
        return None
    return KerberosLogin(found.principal, found.keytab, found.config or "")


def login_options(spec: RouteSpec) -> Options:
    """The login as options of a client; empty where the job has none."""
    login = job_login(spec)
    return () if login is None else login.options()


def with_login(spec: RouteSpec, metastore: Options) -> Options:
    """Options of a metastore, with the login where it needs one."""
    if SERVICE_PRINCIPAL not in dict(metastore):
        return metastore
    return (*metastore, *login_options(spec))


def route_stores(spec: RouteSpec) -> Stores:
    """How a route reaches stores: by its named connection, else the only one of its kind."""
    found: dict[str, list[StoreAccess]] = {}
    named = None
    for name, connection in spec.connections.items():
        for access in _accesses(connection):
            found.setdefault(access.kind, []).append(access)
            if name == spec.table.target.storage:
                named = access
    login = login_options(spec)
    if login:
        # An HDFS without a connection has an entry too: HADOOP_CONF_DIR says where it is.
        known = found.get(HDFS) or [StoreAccess(HDFS)]
        found[HDFS] = [_with(access, login) for access in known]
        named = named if named is None or named.kind != HDFS else _with(named, login)
    accesses, unclear = [], []
    for kind, several in sorted(found.items()):
        if named is not None and named.kind == kind:
            accesses.append(named)
        elif len(several) == 1:
            accesses.append(several[0])
        else:
            unclear.append(kind)
    return Stores(tuple(accesses), tuple(unclear))


def _with(access: StoreAccess, login: Options) -> StoreAccess:
    return StoreAccess(access.kind, (*access.options, *login))


def _accesses(connection: ConnectionSpec) -> Iterator[StoreAccess]:
    """Access by a connection to a store; none for other connections."""
    for kind, block in ((S3, connection.s3), (HDFS, connection.hdfs)):
        if block is not None:
            yield StoreAccess(kind, _texts(_given(block)))
    if connection.plugin is not None and connection.plugin[0] in plugin_names(PluginGroup.STORAGE):
        yield StoreAccess(connection.plugin[0], _texts(connection.plugin[1]))


def _given(block: Block) -> Mapping[str, object]:
    values = {name: getattr(block, name) for name in type(block).model_fields}
    return {name: value for name, value in values.items() if value not in (None, False)}


def _texts(options: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, _text(value)) for name, value in options.items()))


def _text(value: object) -> str:
    return "true" if value is True else revealed(value)
