"""The steps of a driver reach their failpoints."""

from sluiceway.observe.failpoints import VARIABLE, Role, arm, reach
from sluiceway.observe.log import Log
from sluiceway.observe.steps import Observer, Step


def reaching(observe: Observer, log: Log) -> Observer:
    """An observer of a driver's steps that reaches their failpoints too.

    Called once in each process that is a driver, before its first step.
    """
    armed = arm(Role.DRIVER)
    if armed is not None:
        log.warning("failpoint_armed", variable=VARIABLE, point=armed.point, action=armed.action)

    def observe_and_reach(step: Step) -> None:
        observe(step)
        reach(f"step.{step}")

    return observe_and_reach
