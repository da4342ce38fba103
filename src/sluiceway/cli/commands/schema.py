"""`sluiceway schema`: the shape of a job file, for editors."""

import json
import sys

import typer

app = typer.Typer()


@app.command()
def schema() -> None:
    """Print the JSON Schema of job files, with the plug-ins that are installed here.

    An editor with a YAML language server completes keys by it and shows their meaning. The job file
    has to begin with the line `# yaml-language-server: $schema=job.schema.json`.

    $ sluiceway schema > job.schema.json
    """
    from sluiceway.jobfile.json_schema import job_file_schema  # noqa: PLC0415 - keeps `--help` quick

    sys.stdout.write(json.dumps(job_file_schema(), indent=2) + "\n")
