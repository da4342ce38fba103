"""What `backfill` refuses before it reads a job file."""

import pytest

from sluiceway.cli.app import run_command


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--from", "table"], "--from files or --from table"),
        (["--from", "files"], "--from files or --from table"),
        (["--from", "inputs", "ods.other"], "--from files or --from table"),
        (["--from", "ledger", "/f/*.parquet"], "--from files or --from table"),
        (["--from", "table", "other"], "a table as ods.orders"),
        (["--from", "ledger", "--accept-rows", "-2"], "a number of rows"),
        (["--from", "queue"], "'inputs', 'offsets'"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["backfill", "no-such-job.yaml", "dt=20261120", *options]) == 2
    assert said in " ".join(capsys.readouterr().err.replace("│", "").split())
