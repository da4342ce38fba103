"""Corruptions of the log, of OWNER and of the metastore."""

import shutil

from tools.corruption import READS_NO_CONTENT, ROWS_ARE_RIGHT, Corruption
from tools.plants import (
    another_ledger,
    change_bytes,
    copy_file,
    copy_tail,
    crc_only,
    drop_partition,
    edit_in_place,
    elsewhere,
    empty_foreign_partition,
    first_data,
    forge_log,
    forget_file,
    name_file_twice,
    one_less_row,
    one_more,
    other_format,
    owner,
    sum_only,
    swap_locations,
    swap_slots,
)

LOG_CORRUPTIONS = (
    Corruption(
        "record edited", edit_in_place(2, b'"epoch":', b'"epoch":7'), "chain", "chain", "ledger"
    ),
    Corruption(
        "record edited, hashes fixed", forge_log(first_data(one_more)), "chain", "chain", "ledger"
    ),
    Corruption(
        "row taken from all counts, hashes fixed",
        forge_log(first_data(one_less_row)),
        "file_changed",
        "file_changed",
        "ledger",
    ),
    Corruption(
        "file forgotten, hashes fixed",
        forge_log(first_data(forget_file)),
        "file_unknown",
        "file_unknown",
        "ledger",
    ),
    Corruption(
        "file named twice, hashes fixed",
        forge_log(name_file_twice),
        "file_twice",
        "file_twice",
        "ledger",
    ),
    Corruption(
        "checksum edited, hashes fixed",
        forge_log(crc_only),
        "file_changed",
        "",
        "ledger",
        READS_NO_CONTENT,
    ),
    Corruption(
        "sum of offsets edited, hashes fixed",
        forge_log(sum_only),
        "offsets",
        "",
        "",
        "only `verify --deep` sums the offsets; rows and counts are right",
    ),
    Corruption(
        "topic's identity edited, hashes fixed",
        forge_log(
            lambda rs: [
                p.update(topic_id="0" * 22)
                for r in rs
                for p in (*r["body"].get("partitions", ()), *r["body"].get("ranges", ()))
            ]
        ),
        "source",
        "source",
        "",
        "only the broker knows; the reader asks for no identities",
    ),
    Corruption(
        "timings edited, hashes fixed",
        forge_log(first_data(lambda b: b["timings_ms"].update(read=1))),
        "",
        "",
        "",
        "nothing else says how long an epoch took; no promise rests on it",
    ),
    Corruption(
        "record duplicated in the middle",
        forge_log(lambda rs: rs.insert(2, rs[2])),
        "chain",
        "chain",
        "ledger",
    ),
    Corruption(
        "record removed in the middle", lambda t: t.slots()[2].unlink(), "chain", "chain", "ledger"
    ),
    Corruption(
        "record removed in the middle, renumbered, hashes fixed",
        forge_log(lambda rs: (rs.pop(2), [r.update(seq=n) for n, r in enumerate(rs)])),
        "chain",
        "chain",
        "ledger",
    ),
    Corruption(
        "record removed at the tail",
        lambda t: t.slots()[-1].unlink(),
        "file_unknown",
        "file_unknown",
        "ledger",
    ),
    Corruption("slot filled by a copy", copy_tail, "chain", "chain", "ledger"),
    Corruption("two slots swapped", swap_slots, "chain", "chain", "ledger"),
    Corruption(
        "record truncated", change_bytes(lambda raw: raw[:-9], "slots"), "chain", "chain", "ledger"
    ),
    Corruption(
        "record extended",
        change_bytes(lambda raw: raw + b"\n", "slots"),
        "chain",
        "chain",
        "ledger",
    ),
    Corruption("record emptied", change_bytes(lambda _: b"", "slots"), "chain", "chain", "ledger"),
    Corruption(
        "record with a key twice",
        edit_in_place(1, b'"term":1', b'"term":1,"term":1'),
        "chain",
        "chain",
        "ledger",
    ),
    Corruption(
        "stray record beside the slots",
        copy_file(lambda t: t.slots()[-1], lambda t: t.slots()[-1].with_name("old.json")),
        "file_unknown",
        "file_unknown",
        "ledger",
    ),
    Corruption(
        "record named by a digit that is no number",
        copy_file(lambda t: t.slots()[-1], lambda t: t.slots()[-1].with_name("\u00b2.json")),
        "file_unknown",
        "file_unknown",
        "ledger",
    ),
    Corruption(
        "log removed", lambda t: shutil.rmtree(t.system / "log"), "chain", "chain", "ledger"
    ),
    Corruption("ledger of another table", another_ledger, "identity", "identity", "ledger"),
    Corruption(
        "second ledger copied in",
        lambda t: shutil.copytree(t.system, t.root / "_sluiceway/other"),
        "file_unknown",
        "file_unknown",
        "ledger",
    ),
    Corruption(
        "OWNER of another ledger",
        owner(lambda o: o.update(ledger="1" * 32)),
        "identity",
        "identity",
        "ledger",
    ),
    Corruption(
        "OWNER of another job",
        owner(lambda o: o.update(job="other")),
        "identity",
        "identity",
        "ledger",
    ),
    Corruption(
        "OWNER of another place",
        owner(lambda o: o.update(location="file:/elsewhere")),
        "identity",
        "identity",
        "ledger",
    ),
    Corruption(
        "OWNER removed",
        lambda t: (t.root / "_sluiceway/OWNER").unlink(),
        "identity",
        "identity",
        "ledger",
    ),
    Corruption(
        "OWNER unreadable",
        lambda t: (t.root / "_sluiceway/OWNER").write_bytes(b'{"ledger":'),
        "identity",
        "identity",
        "ledger",
    ),
)

METASTORE_CORRUPTIONS = (
    Corruption(
        "two hours' locations swapped", swap_locations, "partition", "partition", "wrong_partition"
    ),
    Corruption("partition elsewhere", elsewhere, "partition", "partition", "lost"),
    Corruption("partition dropped", drop_partition, "partition", "partition", "lost"),
    Corruption(
        "partition that shows our files again",
        lambda t: t.add_partition(["20990101", "00"], t.hours()[0]),
        "partition",
        "partition",
        "doubled",
    ),
    Corruption(
        "partition of somebody's files",
        empty_foreign_partition,
        "foreign",
        "foreign",
        "doubled",
        "verify lists partitions of others",
    ),
    Corruption(
        "partition of another format",
        lambda t: t.alter_partition(0, other_format),
        "partition",
        "partition",
        "",
        ROWS_ARE_RIGHT,
    ),
    Corruption(
        "table of another format",
        lambda t: t.alter_table(other_format),
        "identity",
        "identity",
        "",
        ROWS_ARE_RIGHT,
    ),
    Corruption(
        "column of another type",
        lambda t: t.alter_table(lambda raw: setattr(raw.sd.cols[4], "type", "string")),
        "identity",
        "identity",
        "schema_errors",
    ),
    Corruption(
        "table property removed",
        lambda t: t.alter_table(lambda raw: raw.parameters.pop("sluiceway.ledger")),
        "identity",
        "identity",
        "",
        "the reader takes a table that names no ledger",
    ),
    Corruption(
        "table property of another ledger",
        lambda t: t.alter_table(
            lambda raw: raw.parameters.update({"sluiceway.ledger": "0@file:/x"})
        ),
        "identity",
        "identity",
        "ledger",
    ),
    Corruption(
        "columns of the table in another order",
        lambda t: t.alter_table(lambda raw: raw.sd.cols.insert(0, raw.sd.cols.pop(1))),
        "partition",
        "partition",
        "",
        "Parquet is read by name: every reader finds the same rows",
    ),
)
