"""Users' Python functions in SQL: found by name here and on executors."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import DataType

from sluiceway.driver.spark.sql_types import spark_type
from sluiceway.errors import JobFileError
from sluiceway.jobfile.compile.sql_rule import FunctionRule, SqlRule
from sluiceway.types.hive_types import parse_hive_type

_SENT_ALONG = "executors need it too: install it there, or name it in spark.submit.pyFiles"


def register_functions(session: SparkSession, rule: SqlRule) -> None:
    """Give the functions of a route to its session. Called once per session.

    A function is sent by the name of its module, so executors import it.

    Raises:
        JobFileError: One cannot be found, or Spark cannot call it.
    """
    for each in rule.functions:
        function = _find(rule, each)
        returns = spark_type(parse_hive_type(each.returns))
        if each.vectorised:
            session.udf.register(each.name, _of_series(rule, each, function, returns))
        else:
            session.udf.register(each.name, function, returns)


def _of_series(
    rule: SqlRule, each: FunctionRule, function: Callable[..., Any], returns: DataType
) -> Any:
    """A function that is called with pandas series; pandas is imported only for those."""
    try:
        return functions.pandas_udf(function, returns)
    except (ImportError, PySparkException) as error:
        raise JobFileError(
            f"the function {each.name} cannot be called with pandas series: {error}",
            where=_where(rule, each),
            hint=f"correct it (for example, install pandas), or write `python:`; {_SENT_ALONG}",
        ) from error


def _where(rule: SqlRule, each: FunctionRule) -> str:
    return f"{rule.places.source or 'transform'}: transform.functions.{each.name}"


def _find(rule: SqlRule, each: FunctionRule) -> Callable[..., Any]:
    where = _where(rule, each)
    module, _, name = each.place.partition(":")
    try:
        function = getattr(import_module(module), name)
    except Exception as error:
        raise JobFileError(
            f"the function {each.place} cannot be imported: {type(error).__name__}: {error}",
            where=where,
            hint=f"install its package, or correct the name; {_SENT_ALONG}",
        ) from error
    if not callable(function):
        raise JobFileError(
            f"{each.place} is no function", where=where, hint="name one: module:function"
        )
    found: Callable[..., Any] = function
    return found
