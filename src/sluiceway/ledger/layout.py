"""Names of everything under `<table>/_sluiceway`."""

from dataclasses import dataclass

RECORDS_PER_FOLDER = 10_000
SLOT_DIGITS = 20
SYSTEM_FOLDER = "_sluiceway"
_LATE = "late"
_LATE_DEPTH = 3


@dataclass(frozen=True, slots=True)
class LedgerLayout:
    """Where a route's ledger keeps its things.

    Attributes:
        table_root: Absolute folder of the table, without a trailing slash.
        route: Route name; a plain identifier.
        cuts: Of a table that was adopted: the last slot that each generation of the log keeps of
            the ones before. The log of generation 1 begins after the first of them.
    """

    table_root: str
    route: str
    cuts: tuple[int, ...] = ()

    @property
    def owner(self) -> str:
        """Which ledger owns the table."""
        return f"{self.table_root}/{SYSTEM_FOLDER}/OWNER"

    @property
    def root(self) -> str:
        """The route's folder."""
        return f"{self.table_root}/{SYSTEM_FOLDER}/{self.route}"

    @property
    def log(self) -> str:
        """Write-once records that the first generation has put."""
        return self.log_of(0)

    def log_of(self, generation: int) -> str:
        """Write-once records that a generation has put."""
        return f"{self.root}/log-{generation}" if generation else f"{self.root}/log"

    @property
    def logs(self) -> tuple[str, ...]:
        """Folders of the records of all generations, the oldest first."""
        return tuple(self.log_of(number) for number in range(len(self.cuts) + 1))

    def generation_of(self, seq: int) -> int:
        """Generation whose record stands in slot `seq`."""
        later = (at for at in range(len(self.cuts), 0, -1) if seq > self.cuts[at - 1])
        return next(later, 0)

    def generation(self, number: int) -> str:
        """Claim of a generation: what it keeps of the log, and who has adopted it."""
        return f"{self.root}/generations/{number}.json"

    def cut(self, generation: int) -> str:
        """Where files lie that no slot names which the generation keeps."""
        return f"{self.root}/cut/{generation}"

    @property
    def stage(self) -> str:
        """Attempt folders, results and temporary files."""
        return f"{self.root}/stage"

    @property
    def lease(self) -> str:
        """Advice about the live driver."""
        return f"{self.root}/lease.json"

    @property
    def status(self) -> str:
        """Advice about how the live driver fares."""
        return f"{self.root}/status.json"

    @property
    def readers(self) -> str:
        """Leases of queries that read the table, by their names; advice."""
        return f"{self.root}/readers"

    def reader(self, name: str) -> str:
        """Lease of one query."""
        return f"{self.readers}/{name}.json"

    @property
    def rooms(self) -> str:
        """What the rooms of a job say to each other; advice."""
        return f"{self.root}/rooms"

    def room(self, name: str) -> str:
        """What the driver of a room says of itself."""
        return f"{self.rooms}/{name}.json"

    @property
    def switch(self) -> str:
        """Request of an operator that another room takes over."""
        return f"{self.rooms}/_switch.json"

    @property
    def drill(self) -> str:
        """The last drill."""
        return f"{self.rooms}/_drill.json"

    @property
    def given_up(self) -> str:
        """The lost room that holds no announcement any more."""
        return f"{self.rooms}/_given_up.json"

    @property
    def hint(self) -> str:
        """Advice about the newest SNAPSHOT."""
        return f"{self.root}/hint.json"

    @property
    def requests(self) -> str:
        """Mail of tools to the driver that runs the route, and its answers; never truth."""
        return f"{self.root}/requests"

    def request(self, name: str) -> str:
        """What a tool asks for."""
        return f"{self.requests}/{name}.json"

    def answer(self, name: str) -> str:
        """Why the driver does not do it."""
        return f"{self.requests}/{name}.answer.json"

    def announced(self, target: str) -> str:
        """File that says which announcements a target has got already. It is advice only."""
        return f"{self.root}/told-{target}.json"

    @property
    def value_tables(self) -> str:
        """Tables that values of the source have named; truth."""
        return f"{self.root}/tables"

    def value_table(self, number: int) -> str:
        """One of them, counted from 0 in the order of their appearance."""
        return f"{self.value_tables}/{number:06d}.json"

    @property
    def reserve(self) -> str:
        """Room that is set aside for a record on a full disk."""
        return f"{self.stage}/reserve"

    @property
    def snapshots(self) -> str:
        """Side files of SNAPSHOT records; under stage/, since the log can replace each of them."""
        return f"{self.stage}/snapshots"

    def snapshot(self, name: str) -> str:
        """Path of a side file."""
        return f"{self.snapshots}/{name}"

    def packs_of(self, folder: int) -> str:
        """Folder of the pack of a log folder: that of the generation that has filled it."""
        generation = self.generation_of(self.slots_of(folder).stop - 1)
        return f"{self.root}/pack-{generation}" if generation else f"{self.root}/pack"

    def pack(self, folder: int) -> str:
        """Records of a whole log folder that was emptied, one a line, compressed."""
        return f"{self.packs_of(folder)}/{folder:016d}.jsonl.gz"

    def folder_of(self, seq: int) -> int:
        """Number of the log folder that holds slot `seq`."""
        return seq // RECORDS_PER_FOLDER

    def slots_of(self, folder: int) -> range:
        """Slots of a log folder."""
        return range(folder * RECORDS_PER_FOLDER, (folder + 1) * RECORDS_PER_FOLDER)

    def log_folder(self, folder: int, generation: int = 0) -> str:
        """Path of a log folder of a generation."""
        return f"{self.log_of(generation)}/{folder:016d}"

    def record_folder(self, seq: int) -> str:
        """Folder of slot `seq`."""
        return self.log_folder(self.folder_of(seq), self.generation_of(seq))

    def record(self, seq: int) -> str:
        """Path of slot `seq`."""
        return f"{self.record_folder(seq)}/{seq:0{SLOT_DIGITS}d}.json"

    def attempt(self, name: str) -> str:
        """Folder of one attempt at one epoch."""
        return f"{self.stage}/{name}"

    @property
    def all_results(self) -> str:
        """Folders of the task results of all epochs."""
        return f"{self.stage}/results"

    def results(self, term: int, epoch: int) -> str:
        """Folder of the task results of an epoch."""
        return f"{self.all_results}/{term}-{epoch}"

    def probe(self, term: int, name: str) -> str:
        """Folder in which a driver that has read `term` tries the store before it fences."""
        return f"{self.stage}/probe-{term}-{name}"

    def final(self, relative: str) -> str:
        """Final name of a file, from its name relative to the table."""
        return f"{self.table_root}/{relative}"

    @property
    def late(self) -> str:
        """Late rows, in folders as the table has them."""
        return f"{self.root}/{_LATE}"

    @property
    def late_shown(self) -> str:
        """Advice about how far a table shows the late rows."""
        return f"{self.root}/late-table.json"

    def late_relative(self, folder: str, file_name: str) -> str:
        """Final name of a file of late rows, relative to the table.

        Args:
            folder: Folder of the rows' own partition; empty without partition columns.
            file_name: Its last part.
        """
        below = f"{folder}/{file_name}" if folder else file_name
        return f"{SYSTEM_FOLDER}/{self.route}/{_LATE}/{below}"

    def dirty_relative(self, file_name: str) -> str:
        """Final name of a dirty file, relative to the table."""
        return f"{SYSTEM_FOLDER}/{self.route}/dirty/{file_name}"


def is_late_place(final: str) -> bool:
    """Whether a final name, relative to the table, is one of late rows."""
    parts = final.split("/")
    return parts[:1] == [SYSTEM_FOLDER] and parts[2:3] == [_LATE] and len(parts) > _LATE_DEPTH


def late_folder(final: str) -> str:
    """Folder of the partition that late rows are of, from the final name of their file."""
    return "/".join(final.split("/")[_LATE_DEPTH:-1])


def is_number(name: str) -> bool:
    """Whether a name found in a listing may be a number of ours: not each digit is one (`²`)."""
    return name.isascii() and name.isdigit()
