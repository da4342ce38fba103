"""A few thousand damaged frames; `make proofs NAME=fuzz-rocketmq` has a million."""

import random

from tools.rocketmq_fuzz import judge, run, sound_frame


def test_sound_frames_are_read() -> None:
    rng = random.Random(7)  # noqa: S311 - the same each time
    outcomes = [judge(sound_frame(rng)) for _ in range(300)]
    assert set(outcomes) - {"native"} == {"messages", "answer"}


def test_damaged_frames_end_in_an_answer_or_a_typed_error() -> None:
    found = run(3_000, seed=20_261_123)
    within, read = found.pop("in_messages"), found.pop("in_messages_read")
    assert sum(found.values()) == 3_000
    assert found["WireError"] > 1_000
    assert within == 1_500
    # Not all of it is refused by a checksum: what is packed or batched is damaged before it too.
    assert 300 < read < 1_400
