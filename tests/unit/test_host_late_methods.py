"""Data classes whose methods are compiled at their first call act as all others."""

import dataclasses
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace
from typing import Any

import pytest

from sluiceway.host import late_methods


@pytest.fixture(autouse=True)
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = dataclasses
    monkeypatch.setattr(library, "_create_fn", library._create_fn)
    monkeypatch.setattr(late_methods, "_PACKAGES", {__name__.partition(".")[0]})
    late_methods.compile_methods_late()


@pytest.mark.parametrize("slots", [True, False])
def test_methods_are_compiled_at_their_first_call_only(slots: bool) -> None:  # noqa: FBT001
    @dataclass(frozen=True, slots=slots, order=True)  # type: ignore[literal-required]
    class Point:
        x: int
        y: list[int] = field(default_factory=list, hash=False)

    made = Point.__init__
    point = Point(1)
    assert Point.__init__ is not made
    assert Point.__init__.__code__.co_varnames[:3] == ("self", "x", "y")
    assert Point.__init__.__qualname__.endswith("Point.__init__")
    assert point == Point(1, [])
    assert point != Point(2)
    assert sorted([Point(2), point]) == [point, Point(2)]
    assert hash(point) == hash(Point(1, [5]))
    assert repr(point).endswith("Point(x=1, y=[])")
    assert replace(point, x=7).x == 7
    with pytest.raises(FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        Point()  # type: ignore[call-arg]


@dataclass(frozen=True, slots=True)
class Kept:
    x: int


def test_subclasses_call_the_method_of_their_base() -> None:
    @dataclass
    class Base:
        x: int

        def __post_init__(self) -> None:
            self.twice = 2 * self.x

    class Below(Base):
        def __init__(self) -> None:
            super().__init__(4)

    assert Below().twice == 8
    assert Base(1).twice == 2
    assert Base.__init__.__code__.co_varnames[:2] == ("self", "x")


def test_instances_are_pickled() -> None:
    assert pickle.loads(pickle.dumps(Kept(3))) == Kept(3)  # noqa: S301 - our own bytes


def test_classes_of_others_are_left_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_methods, "_PACKAGES", {"another"})

    @dataclass
    class Theirs:
        x: int

    assert Theirs.__init__.__code__.co_varnames == ("self", "x")


def test_it_is_installed_once() -> None:
    library: Any = dataclasses
    before = library._create_fn
    late_methods.compile_methods_late()
    assert library._create_fn is before
