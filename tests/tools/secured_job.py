"""Job file of a table on the lab's secured servers."""

from sluiceway.lab.lab import LabEndpoints

_JOB = """\
version: 1
name: secured
kerberos: {{principal: {principal}, keytab: {keytab}, config: {config}}}
connections:
  main: {{kafka: {{bootstrap_servers: "{servers}"}}}}
  lake: {{hdfs: {{config_dir: {config_dir}}}}}
  hms: {{metastore: {{uri: "{uri}", kerberos: {{service_principal: {service}}}}}}}
source: {{connection: main, topics: [{topic}], start: earliest}}
format: {{json: {{unknown_fields: ignore}}}}
table:
  hive: {{connection: hms, name: ods.{topic}, create: if_missing, storage: lake,
    location: "{hdfs}/warehouse/ods.db/{topic}"}}
  columns:
    - {{name: order_id, type: bigint, required: true}}
    - {{name: ts, type: bigint, required: true}}
    - {{name: status, type: string}}
  partition_by: [{{name: dt, event_time: yyyyMMdd}}, {{name: hr, event_time: HH}}]
  meta: [topic, partition, offset, timestamp]
event_time: {{field: ts, unit: ms, timezone: UTC}}
run: {{interval: {interval}, master: "local[1]"}}
"""


def secured_job(
    endpoints: LabEndpoints, topic: str, *, interval: str = "2s", keytab: str = ""
) -> str:
    """The job file.

    Args:
        endpoints: Of a lab with a realm and HDFS.
        topic: Of orders; the table has its name.
        interval: From one commit to the next.
        keytab: In place of the client's.
    """
    realm, hdfs = endpoints.realm, endpoints.hdfs
    if realm is None or hdfs is None:
        raise ValueError("the lab has no realm, or no HDFS")
    return _JOB.format(
        principal=realm.login.principal,
        keytab=keytab or realm.login.keytab,
        config=realm.login.config,
        servers=endpoints.bootstrap_servers,
        config_dir=hdfs.config_dir,
        uri=endpoints.metastore_uri,
        service=realm.service("hive"),
        hdfs=hdfs.uri,
        topic=topic,
        interval=interval,
    )
