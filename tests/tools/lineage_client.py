"""Events of lineage as the client library of OpenLineage reads and writes them."""

from typing import Any

from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    input_statistics_input_dataset,
    job_type_job,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
    symlinks_dataset,
)
from openlineage.client.serde import Serde


def through_the_client(event: dict[str, Any]) -> dict[str, Any]:
    """The event as the library's own classes write it, which check all that they are given.

    Raises:
        TypeError, ValueError: It has a field that the specification does not know, or lacks one.
    """
    run, job = event["run"], event["job"]
    made = RunEvent(
        eventType=RunState(event["eventType"]),
        eventTime=event["eventTime"],
        producer=event["producer"],
        run=Run(run["runId"], {name: _facet(name, facet) for name, facet in run["facets"].items()}),
        job=Job(
            job["namespace"],
            job["name"],
            {name: _facet(name, facet) for name, facet in job["facets"].items()},
        ),
        inputs=[
            InputDataset(
                each["namespace"],
                each["name"],
                facets=None,
                inputFacets={n: _facet(n, facet) for n, facet in each["inputFacets"].items()},
            )
            for each in event["inputs"]
        ],
        outputs=[
            OutputDataset(
                each["namespace"],
                each["name"],
                facets={n: _facet(n, facet) for n, facet in each["facets"].items()},
                outputFacets={n: _facet(n, facet) for n, facet in each["outputFacets"].items()},
            )
            for each in event["outputs"]
        ],
    )
    return Serde.to_dict(made)


def _facet(name: str, told: dict[str, Any]) -> Any:
    values = {key: value for key, value in told.items() if not key.startswith("_")}
    if name == "schema":
        fields = [
            schema_dataset.SchemaDatasetFacetFields(**each, fields=None)
            for each in values["fields"]
        ]
        return schema_dataset.SchemaDatasetFacet(fields, producer=told["_producer"])
    if name == "symlinks":
        named = [symlinks_dataset.Identifier(**each) for each in values["identifiers"]]
        return symlinks_dataset.SymlinksDatasetFacet(named, producer=told["_producer"])
    if name == "columnLineage":
        return column_lineage_dataset.ColumnLineageDatasetFacet(
            {
                column: column_lineage_dataset.Fields([_field(each) for each in of["inputFields"]])
                for column, of in values["fields"].items()
            },
            [_field(each) for each in values.get("dataset", [])],
            producer=told["_producer"],
        )
    if name == "jobType":
        pattern = job_type_job.EmissionPattern(**values.pop("emissionPattern"))
        return job_type_job.JobTypeJobFacet(
            **values, emissionPattern=pattern, producer=told["_producer"]
        )
    kinds = {
        "processing_engine": processing_engine_run.ProcessingEngineRunFacet,
        "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet,
        "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    }
    return kinds[name](**values, producer=told["_producer"])


def _field(told: dict[str, Any]) -> Any:
    made = [column_lineage_dataset.Transformation(**each) for each in told["transformations"]]
    return column_lineage_dataset.InputField(**(told | {"transformations": made}))
