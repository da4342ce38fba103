"""The rules that can be switched off, one at a time. Each must make a model fail."""

from enum import StrEnum


class Mutation(StrEnum):
    """A wrong variant of the protocol; the value says what it does."""

    # Files: several source partitions, stragglers, takeover, garbage.
    PUBLISH_BEFORE_COMMIT = "files get their final names before the record is put"
    SLOT_OVERWRITTEN = "a put replaces what stands in the slot"
    NO_FENCE_CHECK = "a driver that lost its slot to a FENCE puts its record behind it"
    GC_BY_AGE = "staged files that no record names are removed at any time"
    GC_OF_RUNNING_EPOCH = "the term's own fence lets all of its staged files go"
    GC_WITHOUT_FINAL_NAMES = "what is decided goes, named or not, published or not"
    DELETE_ON_TIMEOUT = "a put without an answer is taken for failed and its files are removed"
    RESTAGE_AFTER_UNKNOWN = "a put without an answer is taken for failed and the epoch run again"
    DEDUPE_BY_EPOCH = "a record counts as seen when its epoch number was seen"
    THROUGH_BEFORE_PUBLISH = "published_through is raised when the record has landed"
    NO_RECOVERY = "a new driver takes everything before its fence for published"
    EVERY_ATTEMPT_COUNTS = "DATA names the files of every attempt, not of the first to finish"
    RESULT_OF_ANOTHER_EPOCH = "a task's result is found by task only, whoever put it"
    SHARED_ATTEMPT_FOLDER = "two attempts at a task write the same staged name"
    NAMES_WITHOUT_TERM = "staged names begin anew with each driver"
    STRAGGLERS_COUNTED = "DATA moves the ends of tasks that have not finished"

    # Two epochs in flight, READY, records of others.
    SLOT_NAMED_STAGE = "stage folders are named by the slot that is guessed when planning"
    ANY_RECORD_FENCES = "any record of another in the slot ends the driver"
    NEXT_EPOCH_KEPT = "epoch k is thrown away, k+1 is committed"
    NO_REBASE_CHECK = "a record that lost its slot is put into the next one untested"
    SECOND_PUT_IN_FLIGHT = "epoch k+1 is put while the outcome of k is unknown"
    READY_AT_ONCE = "READY is put while an epoch planned before it is in flight"
    READY_BEFORE_PUBLISH = "READY is put before all files of the partition are published"

    # Locations of a partition, REPLACE, metastore.
    FOLDER_AT_PLAN_TIME = "the final folder of a file is fixed when the epoch is planned"
    UNCHECKED_REPLACE = "REPLACE removes what it has read, whatever came since"
    REPLACE_BEFORE_PUBLISH = "REPLACE is put while a live file is not published"
    CALL_PER_RECORD = "each record makes its own metastore call, once"
    FOLDER_NAME_REUSED = "a version folder gets a name that was used before"
    NO_READ_BACK = "the old folder goes without a look at the metastore"
    FORGOTTEN_UNSEALED = "a partition that has moved is forgotten, and rows go to its first folder"
    SEALED_WHILE_OWED = "a partition is forgotten before readers are shown where it is"

    # Start offsets.
    LATEST_RESOLVED_AGAIN = "`latest` is resolved at each start until there is DATA"
    READ_BEFORE_PIN = "tasks read from a resolved offset before SOURCES has landed"
    FOUND_AT_LATEST = "a partition found later starts at its latest offset"
    NO_LOOK_AFTER_READ = "the topic's identity is not looked at again before the commit"

    # From a table to its topics.
    HAND_OVER_MID_SLOT = "the topic begins after a slot of which rows are unread"
    HAND_OVER_AT_NEWEST = "the topic begins where the table's job is now, not at the slot read"
    HAND_OVER_IN_TWO = "one record retires the table, and another one pins the topic"
    HAND_OVER_IN_FLIGHT = "the table is retired while rows of it are in flight"

    # Snapshots and packs.
    SNAPSHOT_DROPS_UNPUBLISHED = "SNAPSHOT does not say which records are unpublished"
    NO_LOOK_AFTER_PUT = "a writer does not look for a pack over its slot after its put"
    PUBLISH_BEFORE_LOOK = "a writer publishes before it looks for a pack over its slot"
    SLOT_BEFORE_PACK = "a reader prefers a slot's file to the pack that covers it"
    REMOVED_BEFORE_PACKED = "the folder of records goes before its pack is whole"

    # Lanes.
    LANES_OVERLAP = "LANE takes rows that another lane has"
    LANE_END_IN_MEMORY = "how far a lane is its driver knows, and no record"
    REQUEST_TWICE = "a request that is found again opens its lane again"
    LANE_UNCHECKED = "LANE_DATA is put whatever term and end the log has"
    LATE_FILE_GOES_EARLY = "a late file goes when a lane has taken it, copied or not"

    # Lake tables: requests, lineage, other writers.
    LAKE_HEAD_UNASSERTED = "a request does not assert the head of main"
    LAKE_TWO_REQUESTS = "snapshot and property are two requests"
    LAKE_RETRY_BLIND = "a request is built again on the new head without a look at the property"
    LAKE_TWO_LOADS = "the property is read by another load than the head"
    LAKE_SLOT_LEFT_OUT = "a batch need not begin behind the last slot that the table has"
    LAKE_BY_ANCESTRY = "how far the table is, is told by our newest snapshot that main shows"
    LAKE_NO_LINEAGE = "nobody looks whether our last snapshot is in main's history"
    LAKE_CLEANED_UP = "files of a request without an answer are removed"

    # Keyed lake tables: positions of older rows.
    KEYED_OTHER_HEAD = "positions are found at another head than the one that is asserted"
    KEYED_HEAD_UNASSERTED = "a request with positions does not assert the head of main"
    KEYED_FIRST_CHANGE = "of a key's changes in a batch the first one counts"
    KEYED_REWRITE_UNRESOLVED = "files are written anew with the rows that the batch replaces"

    # Chains: a table that follows another one.
    CUT_AT_CHAIN_END = "a copied ledger is cut at its last record, whatever files have arrived"
    CUT_STRAYS_STAY = "files that no kept slot names stay where readers look"
    CUT_ONE_LOG = "the room that adopts a copy goes on in the log folder of the lost room"
    CUT_UNGUARDED = "the copier goes on after an adopt, and what it brings is not moved aside"
    CUT_NO_COPY_BEGINS = "a room that has no copy yet begins a ledger of its own"
    CUT_UNPLACED = "a file that came only as staged gets no final name: it was published once"
    CHAIN_BY_LIVE_PLACE = "rows are taken by their place in what is live now, and nothing is a gap"
    CHAIN_GAP_FORGOTTEN = "rows that a correction has replaced are a gap, and nothing is due"
    CHAIN_REBUILD_OF_TAIL = "a rebuild reads to the tail, beyond what the follower has committed"
    CHAIN_NOT_CARRIED = "a rebuild replaces what came while it ran"
    CHAIN_ASIDE_REBUILT = "a rebuild reads rows that wait for their replay"
    CHAIN_PART_OF_SLOT = "a rebuild leaves out the rows of a slot that was read in part"
    CHAIN_ALWAYS_DONE = "a rebuild settles corrections that came after what it has read"

    # Rooms: where a driver continues in a mirrored topic.
    ROOM_MIRROR_REPEATS = "the tail of a mirror that repeats counts, once its end is confirmed"
    ROOM_PARTIAL_COPY = "whether the last pass of a mirror that repeats is whole is not looked at"
    ROOM_OTHERS_IGNORED = "rows of others before the position are not counted"
    ROOM_FIRST_MATCH = "of a mirror that repeats the first match counts"
    ROOM_OFFSET_SYNC = "the position is after the last row that the mirror's translation knows"
    ROOM_LOG_END = "where others have written too, the mirror end is the log's end"
    ROOM_MIRROR_CONTINUES = "a mirror of which the copy was short continues"
    ROOM_REPEATS_CONTINUES = "so does a mirror that repeats"
    ROOM_MISSING_READ = "a row that the copy lacked at the switch is read when it comes after all"
    ROOM_DRAIN_OPEN = "rows are drained while the mirror continues"
    ROOM_TWO_ORIGIN_ENDS = "drain and copies have each their own end of the lost room's log"
    ROOM_LEFT_LOG_BY_TAIL = "a log that was left for a shorter copy is read again after the tail"
    ROOM_LEFT_LOG_BY_HEADER = "a log that was left is read again as a copy, and has no headers"

    # Replay into keyed lake tables.
    REPLAY_STALE_JUDGEMENT = "a replay's record need not be in the slot up to which was judged"
    REPLAY_OWN_SLOT_UNSEEN = "changes in the dirty row's own slot are not looked at"
    REPLAY_DELETES_UNSEEN = "only images are looked at: a row that was deleted comes back"
    REPLAY_BY_SLOT = "the slot decides alone: what is replayed is the last"
    REPLAY_GONE_IS_NOTHING = "a file of changes that is gone is taken for one without changes"
    REPLAY_FILES_GO = "files of changes go while an older dirty row is open"
