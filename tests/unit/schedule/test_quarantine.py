from sluiceway.schedule.task_packer import CLEAN_EPOCHS, Quarantine

ROUTES = [f"r{number}" for number in range(100)]


def bundles(quarantine: Quarantine, routes: list[str], slots: int) -> list[tuple[str, ...]]:
    """Tasks of one epoch: a group each, and all others dealt over the slots that are left."""
    dealt = quarantine.arrange(routes, slots)
    free = slots - len(dealt.apart)
    shared = [dealt.together[first::free] for first in range(free)] if dealt.together else []
    assert len(shared) + len(dealt.apart) <= slots
    return [*(tuple(each) for each in shared if each), *dealt.apart]


def epochs_until_alone(guilty: str, slots: int) -> tuple[int, set[str]]:
    """Epochs until the guilty route is the only one of its task, and who died on the way."""
    quarantine, met = Quarantine(), set[str]()
    for epoch in range(1, 200):
        for bundle in bundles(quarantine, ROUTES, slots):
            if bundle == (guilty,):
                return epoch, met
            if guilty in bundle:
                met |= {*bundle}
                quarantine.died(bundle)
            else:
                quarantine.survived(bundle)
    raise AssertionError("never alone")


def test_routes_share_tasks_while_none_dies() -> None:
    dealt = Quarantine().arrange(ROUTES, 4)
    assert (dealt.together, dealt.apart) == (tuple(ROUTES), ())


def test_guilty_route_is_alone_after_a_few_epochs_for_any_number_of_slots() -> None:
    for slots in (1, 2, 4, 8):
        for guilty in ("r0", "r57", "r99"):
            epochs, met = epochs_until_alone(guilty, slots)
            # Halving takes seven epochs; with one or two slots the groups take turns.
            assert epochs <= (30 if slots <= 2 else 12), (slots, guilty, epochs)
            assert guilty in met


def test_routes_that_died_together_are_never_in_one_task_with_the_others() -> None:
    quarantine = Quarantine()
    quarantine.died(["r1", "r2", "r3"])
    dealt = quarantine.arrange(ROUTES[:6], 4)
    assert dealt.together == ("r0", "r4", "r5")
    assert dealt.apart == (("r1", "r2"), ("r3",))


def test_others_are_never_left_out_and_those_apart_take_turns() -> None:
    quarantine = Quarantine()
    quarantine.died(["r1", "r2"])
    seen = [quarantine.arrange(ROUTES[:4], 2) for _ in range(4)]
    assert {dealt.together for dealt in seen} == {("r0", "r3")}
    assert [dealt.apart for dealt in seen] == [(("r1",),), (("r2",),), (("r1",),), (("r2",),)]


def test_route_shares_tasks_again_after_clean_epochs() -> None:
    quarantine = Quarantine()
    quarantine.died(["r1", "r2"])
    for _ in range(CLEAN_EPOCHS - 1):
        quarantine.survived(["r1"])
    assert quarantine.arrange(["r0", "r1", "r2"], 4).apart == (("r1",), ("r2",))
    quarantine.survived(["r0", "r1"])
    dealt = quarantine.arrange(["r0", "r1", "r2"], 4)
    assert (dealt.together, dealt.apart) == (("r0", "r1"), (("r2",),))


def test_death_makes_a_route_begin_anew() -> None:
    quarantine = Quarantine()
    quarantine.died(["r1", "r2"])
    for _ in range(CLEAN_EPOCHS - 1):
        quarantine.survived(["r1"])
    quarantine.died(["r1"])
    quarantine.survived(["r1"])
    assert ("r1",) in quarantine.arrange(["r0", "r1"], 4).apart
