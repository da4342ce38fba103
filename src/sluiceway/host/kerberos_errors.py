"""What to do about Kerberos' error texts: the same in `kinit`, in GSSAPI and in HDFS's client."""

UNAVAILABLE = (
    "Cannot contact any KDC",
    "Cannot resolve network address for KDC",
    "Resource temporarily unavailable",
)
"""A later try may find the KDC."""

_TODO = {
    "Clock skew too great": "set this machine's clock, and keep it by NTP: it may differ from the "
    "KDC's by five minutes",
    "Cannot contact any KDC": "is the KDC up, and its address in krb5.conf right?",
    "Cannot resolve network address for KDC": "correct the KDC's name in krb5.conf",
    "Cannot find KDC for realm": "name the realm's KDC in krb5.conf, or correct the realm",
    "not found in Kerberos database while getting initial credentials": "the KDC does not know the "
    "principal: correct `kerberos.principal`, or have it made",
    "not found in Kerberos database": "the KDC does not know the service: correct its "
    "principal, `service_principal` of a metastore, or the host in its address",
    "Preauthentication failed": "the keytab has an old key: have it exported anew",
    "Password incorrect": "the keytab has an old key: have it exported anew",
    "no suitable keys": "the keytab has no key of this principal: `klist -kt` shows whose it has",
    "Key table file": "correct `kerberos.keytab`; the file has to be on every machine that runs "
    "tasks",
    "Unsupported key table format": "the file is no keytab: correct `kerberos.keytab`",
    "Permission denied": "let the user of the process read the keytab",
    "credentials have been revoked": "the KDC has locked or ended the principal: have it opened",
    "Ticket expired": "log in again: `kinit`, or let the job do it by its block `kerberos`",
    "ticket expired": "log in again: `kinit`, or let the job do it by its block `kerberos`",
    "No Kerberos credentials available": "log in: `kinit`, or let the job do it by its block "
    "`kerberos`",
    "No credentials cache found": "log in: `kinit`, or let the job do it by its block `kerberos`",
    "Can't open/find Kerberos configuration file": "correct `kerberos.config`, or KRB5_CONFIG",
    "Configuration file does not specify default realm": "write the principal with its realm",
    "Improper format of Kerberos configuration file": "correct krb5.conf",
}


def what_to_do(said: str) -> str:
    """The fix for an error text; empty when it is not from Kerberos."""
    return next((todo for words, todo in _TODO.items() if words in said), "")


def may_come_back(said: str) -> bool:
    """Whether the same call may succeed later, with nothing changed here."""
    return any(words in said for words in UNAVAILABLE)
