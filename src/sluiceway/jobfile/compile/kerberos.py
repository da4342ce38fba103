"""A job's Kerberos login as options of the clients that need it."""

from sluiceway.host.kerberos import KerberosLogin
from sluiceway.jobfile.blocks.models import RouteSpec

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
