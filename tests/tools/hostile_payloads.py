"""Texts that have broken out of paths, SQL, partition names or displays elsewhere."""

# ruff: noqa: E501, S108 - tables of texts

from collections.abc import Iterator
from functools import cache

DEFAULT = "__HIVE_DEFAULT_PARTITION__"

TRAVERSAL = (
    "..", ".", "...", "....", "../", "../..", "../../x", "../../../../etc/passwd", "./../x", "..\\..",
    "..\\..\\x", "/..", "/../x", "/", "//", "///", "/etc/passwd", "/tmp/x", "\\", "\\\\host\\share",
    "C:\\x", "C:/x", "c:x", "~", "~root", "~/x", "a/..", "a/../..", "a/../../b", "a/./b", "a//b",
    "....//", "..../..../", "..;/", "..;/x", ".../...", "..\x00/", "..\n/", "file:/etc", "file:///x",
    "file://host/x", "hdfs://ns/x", "s3://bucket/x", "thrift://h:1", "x?y", "x#y", "x;y", "x:y",
    "dt=20990101", "dt=1/hr=2", "hr=08/../hr=09", "city=x", "=x", "x=", "=", "a=b=c",
)  # fmt: skip
SQL = (
    "'", "''", "'''", '"', '""', "`", "``", "\\'", '\\"', "';", "--", "-- x", "/*", "*/", "/**/", ";",
    "'; DROP TABLE x; --", '"; DROP TABLE x; --', "`; DROP TABLE x; --", "' OR '1'='1", "' OR 1=1 --",
    '" OR ""="', "1' OR '1' = '1", "x' UNION SELECT 1 --", "x'); DELETE FROM PARTITIONS; --",
    "'||(SELECT 1)||'", "%' --", "_%", "%", "%%", "a%b", "a_b", "1; SELECT pg_sleep(9)", "0x27",
    "CHAR(39)", "\u2019 OR 1=1", "\uff07 OR 1=1", "') OR ('x'='x", "${x}", "$${x}", "${jndi:ldap://x}",
    "#{x}", "{{x}}", "{}", "{0}", "%s", "%d", "%n", "%x", "%(x)s", "$(id)", "`id`", "|id", "&id", "&&",
    "||", ">x", "<x", "<script>", "&lt;", "NULL", "null", "None", "nan", "true", "Infinity", "-0", "1e9",
)  # fmt: skip
RESERVED = (
    "_sluiceway", "_SLUICEWAY", "_sluiceway/OWNER", "_SUCCESS", "_temporary", "_spark_metadata",
    "_metadata", "_common_metadata", "_", "__", "_x", ".x", ".hidden", ".crc", ".part.crc", ".hive-staging",
    "OWNER", "lease.json", "status.json", "stage", "log", "dirty", "con", "NUL", "aux.txt", "COM1",
    DEFAULT, DEFAULT.lower(), f"{DEFAULT} ", f" {DEFAULT}", f"x{DEFAULT}", DEFAULT[:-1], f"{DEFAULT}/",
    "__DEFAULT_BINARY_STRING__", "default", "all", "null%", "*", "?", "[a]", "[!a]", "{a,b}", "a*b",
)  # fmt: skip
SPACES = (
    " ", "  ", " x", "x ", "x  ", "\t", "x\t", "\n", "x\n", "\r", "\r\n", "a\nb", "a\r\nb", "\x0b", "\x0c",
    "\x85", "\u2028", "\u2029", "\u00a0", "\u2000", "\u200b", "\u3000", "\ufeff", "\u180e", "\u00ad",
)  # fmt: skip
LOOKALIKES = (
    "\u2024\u2024", "\u2025", "\u2026", "\uff0e\uff0e", "\u3002\u3002", "\u2215", "\u2044", "\uff0f",
    "\u29f8", "\u2216", "\uff3c", "\ufe68", "\uff1d", "\u2261", "\uff05", "\ufe6a", "\u066a", "\uff1a",
    "\u2236", "\u02b9", "\u2018", "\u201c", "\uff02", "\u037e", "\u0430", "a", "\u0391", "A", "\u00e9",
    "e\u0301", "\u212b", "\u00c5", "A\u030a", "\ufb01", "\u00df", "SS", "ss", "\u0130", "i\u0307", "I",
    "\u0131", "\u1e9e", "\u03c3", "\u03c2", "\ud55c", "\u1112\u1161\u11ab", "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0010ffff", "\ufffd", "\ufffe", "\uffff", "\ue000",
    "z\u0351\u036b\u0343\u036a", "\U000e0041", "\ufe0f",
)  # fmt: skip
DIRECTION = (
    "\u202egnp.x", "\u202dabc", "\u2066x\u2069", "\u2067x", "\u200fx", "\u200ex", "\u061cx", "\u05d0\u05d1",
    "\u0627\u0644", "a\u202e/../b", "\u0660\u0661", "\u06f0", "\u0967",
)  # fmt: skip
LONG = (
    "x" * 249, "x" * 250, "x" * 251, "x" * 256, "x" * 257, "x" * 5_000, "/" * 82, "/" * 84, "/" * 200,
    "\u5317" * 82, "\u5317" * 84, "\U0001f600" * 62, "\U0001f600" * 63, "../" * 60, "%" * 83, "a=" * 50,
    " " * 200, "." * 200, "'" * 80, "e\u0301" * 80,
)  # fmt: skip
_ESCAPABLE = "\"#%'*/:=?\\{[]^"
_ENCODED = ("2e", "2E", "2f", "2F", "5c", "00", "0a", "0d", "20", "25", "27", "22", "3d", "3a", "7f", "80",
            "ff", "c0", "zz", "u002e", "1")  # fmt: skip


def _made() -> Iterator[str]:
    controls = [chr(code) for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))]
    for char in controls:
        yield from (char, f"a{char}b", f"{char}x")
    for char in _ESCAPABLE:
        yield from (char, char * 2, f"a{char}", f"{char}a", f"a{char}b", f"%{ord(char):02x}")
        yield f"a%{ord(char):02X}b"
    for code in _ENCODED:
        yield from (
            f"%{code}",
            f"%{code}%{code}",
            f"%25{code}",
            f"%{code}x",
            f"..%{code}..%{code}x",
        )
    for size in (1, 2, 3):
        yield "%" * size
        yield "." * size + "/" + "." * size


@cache
def hostile_payloads() -> tuple[str, ...]:
    """All of them, each once, in one order; none is empty."""
    listed = (
        *TRAVERSAL, *SQL, *RESERVED, *SPACES, *LOOKALIKES, *DIRECTION, *LONG, *_made(),
    )  # fmt: skip
    return tuple(dict.fromkeys(listed))
