"""`sluiceway run` as it is, but with tasks in threads instead of Spark: a driver to be stopped."""

from typing import NoReturn

from sluiceway.cli import app
from sluiceway.driver import run
from sluiceway.driver.spark import early_start
from tools.inline_runner import InlineRunner


def main() -> NoReturn:
    """Run the process's arguments and exit."""
    # A process of its own, so that no other test meets this.
    early_start.begin_spark = lambda spec: None
    run._start_spark = lambda *_, **__: (InlineRunner(), None)
    app.main()


if __name__ == "__main__":
    main()
