"""Spark's own login on a YARN with Kerberos, from the job's block `kerberos`."""

from collections.abc import Mapping
from typing import Final

from sluiceway.host.kerberos import KerberosLogin, realm_flag

PRINCIPAL: Final = "spark.kerberos.principal"
KEYTAB: Final = "spark.kerberos.keytab"
DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
EXECUTOR_OPTIONS: Final = "spark.executor.extraJavaOptions"
_OTHER_JVMS = ("spark.yarn.am.extraJavaOptions", EXECUTOR_OPTIONS)


def login_settings(login: KerberosLogin, settings: Mapping[str, str]) -> dict[str, str]:
    """Spark settings for a login as the job that is renewed for as long as the job runs.

    Without a keytab its tokens end for good after a week, and so does the application. Spark brings
    the keytab to the ApplicationMaster alone. Existing settings win.

    Args:
        login: Login of the job.
        settings: All other settings.
    """
    own = {} if PRINCIPAL in settings else {PRINCIPAL: login.principal, KEYTAB: login.keytab}
    if not login.config:
        return own
    flag = realm_flag(login.config)
    return own | {
        key: f"{settings.get(key, '')} {flag}".strip() for key in (DRIVER_OPTIONS, *_OTHER_JVMS)
    }
