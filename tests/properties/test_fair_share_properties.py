"""What sharing by max-min fairness has to hold for any wants and any budget."""

from hypothesis import given
from hypothesis import strategies as st

from sluiceway.schedule.rate_limit import Rotation, fair_shares

WANTS = st.lists(st.integers(0, 10**12), max_size=60)
BUDGETS = st.integers(0, 10**13)


@given(WANTS, BUDGETS, st.integers(0, 1000))
def test_all_of_the_budget_is_given_and_no_more(wants: list[int], budget: int, first: int) -> None:
    shares = fair_shares(wants, budget, first=first)
    assert len(shares) == len(wants)
    assert sum(shares) == min(budget, sum(wants))
    assert all(0 <= share <= want for share, want in zip(shares, wants, strict=True))


@given(WANTS, BUDGETS, st.integers(0, 1000))
def test_no_share_can_grow_but_at_the_cost_of_a_smaller_one(
    wants: list[int], budget: int, first: int
) -> None:
    shares = fair_shares(wants, budget, first=first)
    # Who did not get all it wants has as much as anybody, but for the one that cannot be divided.
    unmet = [share for share, want in zip(shares, wants, strict=True) if share < want]
    assert all(share >= max(shares) - 1 for share in unmet)


@given(WANTS, BUDGETS)
def test_who_wants_no_more_than_an_even_share_gets_all(wants: list[int], budget: int) -> None:
    shares = fair_shares(wants, budget)
    assert all(
        share == want
        for share, want in zip(shares, wants, strict=True)
        if want * len(wants) <= budget
    )


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=40), st.integers(1, 10**6))
def test_nobody_starves_when_the_first_one_rotates(wants: list[int], budget: int) -> None:
    totals = [0] * len(wants)
    for turn in range(len(wants)):
        shares = fair_shares(wants, budget, first=turn)
        totals = [total + share for total, share in zip(totals, shares, strict=True)]
    assert min(totals) > 0


@given(WANTS, BUDGETS, BUDGETS)
def test_larger_budget_takes_nothing_from_anybody(wants: list[int], budget: int, more: int) -> None:
    before, after = fair_shares(wants, budget), fair_shares(wants, budget + more)
    assert all(old <= new for old, new in zip(before, after, strict=True))


@given(WANTS, BUDGETS)
def test_rotation_gives_what_sharing_once_gives(wants: list[int], budget: int) -> None:
    names = [f"t[{number}]" for number in range(len(wants))]
    shares = Rotation().share(names, wants, budget)
    assert sorted(shares) == sorted(fair_shares(wants, budget))


@given(st.lists(st.sets(st.integers(0, 12)), min_size=14, max_size=14), st.integers(1, 5))
def test_who_always_wants_is_served_whoever_comes_and_goes(
    others: list[set[int]], budget: int
) -> None:
    rotation, served = Rotation(), 0
    for present in others:
        numbers = sorted(present | {7}, reverse=True)
        shares = rotation.share([f"t[{n}]" for n in numbers], [100] * len(numbers), budget)
        served += shares[numbers.index(7)]
    assert served > 0
