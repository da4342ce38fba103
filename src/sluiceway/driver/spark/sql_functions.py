"""Users' Python functions in SQL: found by name here and on executors."""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pyspark.sql import SparkSession, functions

from sluiceway.driver.spark.sql_types import spark_type
from sluiceway.errors import JobFileError
from sluiceway.jobfile.compile.sql_rule import FunctionRule, SqlRule
from sluiceway.types.hive_types import parse_hive_type

_SENT_ALONG = "executors need it too: install it there, or name it in spark.submit.pyFiles"


def register_functions(session: SparkSession, rule: SqlRule) -> None:
    """Give the functions of a route to its session. Called once per session.

    A function is sent by the name of its module, so executors import it.

    Raises:
        JobFileError: One cannot be found, or pandas is missing.
    """
    for each in rule.functions:
        function = _find(rule, each)
        returns = spark_type(parse_hive_type(each.returns))
        if each.vectorised:
            # Pandas is imported only for those who use it.
            session.udf.register(each.name, functions.pandas_udf(function, returns))
        else:
            session.udf.register(each.name, function, returns)


def _find(rule: SqlRule, each: FunctionRule) -> Callable[..., Any]:
    where = f"{rule.places.source or 'transform'}: transform.functions.{each.name}"
    if each.vectorised and find_spec("pandas") is None:
        raise JobFileError(
            f"the function {each.name} is called with pandas series, and pandas is not installed",
            where=where,
            hint=f"install pandas and pyarrow, or write `python:`; {_SENT_ALONG}",
        )
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
