"""What a session remembers of failures when its route is given back and comes again."""

from sluiceway.errors import TaskFailedError
from tools.board_sessions import placed_session


def test_route_that_came_back_has_its_failed_epochs_before_it_again() -> None:
    session = placed_session("orders")
    error = TaskFailedError("the task failed")

    def pauses_before_halt() -> list[float]:
        pauses = []
        while (pause_s := session.planner.retry_pause.pause_s(error)) is not None:
            pauses.append(pause_s)
        return pauses

    first = pauses_before_halt()
    assert len(first) > 1
    session.leave()
    assert pauses_before_halt() == first
