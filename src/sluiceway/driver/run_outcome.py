"""Whether a run of limited length has done its work; for its exit code."""

from sluiceway.driver.run import RunOptions
from sluiceway.driver.status_board import StatusBoard
from sluiceway.driver.stop import StopSignal
from sluiceway.errors import AllRowsDirtyError, SluicewayError
from sluiceway.route.status import RouteState, RouteSummary


def check_outcome(options: RunOptions, board: StatusBoard, stop: StopSignal) -> None:
    """Raise the error that `outcome_problem` returns, if any.

    Raises:
        SluicewayError: The run has not done what it was started for.
    """
    problem = outcome_problem(options, board, stop)
    if problem is not None:
        raise problem


def outcome_problem(
    options: RunOptions, board: StatusBoard, stop: StopSignal
) -> SluicewayError | None:
    """Why a run did not end well; None when it did, or was stopped on request.

    Called once, after the run. A scheduler goes by it. A run that never reached its broker, or
    wrote none of the rows that it read, must not look like one without work.

    Args:
        options: Options of the run; one without a limit ends by request only.
        board: The board after the run.
        stop: Stop signal of the run.
    """
    if stop.by_request() or not (options.until_caught_up or options.for_s is not None):
        return None
    if halted := board.halted():
        # The other routes went on, and each has its own line in the log.
        route, worst = max(halted, key=lambda each: each[1].exit_code)
        return _ended(worst, f"route {route} has halted", worst.hint)
    for status, error, was_reached in board.unfinished():
        # For a run with a time limit, an outage at its end is no failure.
        waits = options.until_caught_up and status.state is RouteState.WAITING
        if error is not None and (waits or not was_reached):
            hint = error.hint or "nothing is lost; start it again when that is mended"
            return _ended(error, f"route {status.route} still waits", hint)
    dirty = next((each for each in board.summary().routes if _is_all_dirty(each)), None)
    return None if dirty is None else _all_dirty(dirty)


def _ended(error: SluicewayError, how: str, hint: str) -> SluicewayError:
    told = f"the run is over, and {how}: {error.message}"
    return type(error)(told, where=error.where, hint=hint).with_report(
        error.evidence, error.commands
    )


def _is_all_dirty(route: RouteSummary) -> bool:
    return 0 < route.rows_read == route.rows_dirty


def _all_dirty(route: RouteSummary) -> AllRowsDirtyError:
    error = AllRowsDirtyError(
        f"all {route.rows_dirty:,} rows that this run has read are dirty: none is in the table",
        where=route.table,
        hint="they are kept whole. Correct the job file, or the producer, then have them read "
        f"again with `sluiceway dirty replay JOB --route {route.route}`",
    )
    name = route.route
    return error.with_report(
        {}, (f"sluiceway dirty list JOB --route {name}", f"sluiceway dirty show JOB --route {name}")
    )
