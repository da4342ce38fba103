"""`sluiceway run` with tasks in threads, for drills in a row: no pause between two switches."""

from sluiceway.rooms import standby
from tools import inline_driver

if __name__ == "__main__":
    # In the product an operator confirms the next switch for 30 minutes.
    standby.AUTO_PAUSE_S = 0.0  # type: ignore[misc]
    inline_driver.main()
