"""Plans of a user's SQL, rewritten so that each row carries which record it is of.

The plan that Spark has analyzed stays as it is, except that each projection passes one more column
on. After a data error a second form is used: what may fail is tried, and rows that fail are marked.
The trees are Spark's own classes, through py4j.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sluiceway.worker.landing import HIDDEN
from sluiceway.worker.sql_task import CARRIED, FAILED

NOT_BY_ROW = "use a route with `source: {mode: recompute}` for SQL over many rows"
_PASSED = frozenset({"SubqueryAlias", "View", "ResolvedHint"})
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})
_CLOCKS_AND_USERS = {
    **dict.fromkeys(
        (
            "CurrentTimestamp",
            "Now",
            "CurrentDate",
            "CurrentTime",
            "LocalTimestamp",
            "CurDateExpressionBuilder",
        ),
        "the time when it runs",
    ),
    **dict.fromkeys(("CurrentUser", "SessionUser"), "who runs it"),
    **dict.fromkeys(("CurrentDatabase", "CurrentCatalog"), "where it runs"),
}
_INPUT_LEFT = frozenset({"Inner", "Cross", "LeftOuter", "LeftSemi", "LeftAnti"})
_INPUT_RIGHT = frozenset({"Inner", "Cross", "RightOuter"})
_LISTS = frozenset({"Explode", "PosExplode", "Inline"})
# Functions over many rows: their plan begins elsewhere, at SELECT or GROUP BY.
_OVER_ROWS = frozenset({"WindowExpression", "AggregateExpression"})
# Only their first part is computed in every row.
_BRANCHES = frozenset({"If", "CaseWhen", "Coalesce", "NaNvl"})


class RefusedSqlError(Exception):
    """SQL that cannot be run row by row.

    Args:
        message: Why.
        index: Number of the character in the SQL; None when it is not known.
    """

    def __init__(self, message: str, index: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.index = index


class NoGuardError(Exception):
    """Parts of a plan that cannot be tried row by row."""


@dataclass(frozen=True, slots=True)
class MayFail:
    """An expression of a guarded plan.

    Attributes:
        text: The expression, as Spark writes it.
        index: Number of its first character in the SQL; None when it is not known.
    """

    text: str
    index: int | None


@dataclass(slots=True)
class _Guarded:
    """A plan whose rows say which expression has failed.

    Attributes:
        failed: Column with the number of the expression; None where none may have failed yet.
        deferred: Id of a column -> its expression over the plan's columns. Spark computes a column
            where it is first used: in rows that a join or filter drops before, it cannot fail.
    """

    plan: Any
    failed: Any = None
    deferred: dict[int, Any] = field(default_factory=dict)


@dataclass(slots=True)
class SqlPlans:
    """Rewrites plans of one session.

    Args:
        session: Session of the SQL.
    """

    session: SparkSession
    may_fail: list[MayFail] = field(default_factory=list)

    # Spark's classes

    @property
    def _jvm(self) -> Any:
        return self.session._jvm  # noqa: SLF001 - plans have no interface in Python

    @property
    def _catalyst(self) -> Any:
        return self._jvm.org.apache.spark.sql.catalyst

    def _seq(self, items: Sequence[Any]) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for item in items:
            listed.add(item)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()

    def _alias(self, expression: Any, name: str, expression_id: Any = None) -> Any:
        named = self._catalyst.expressions
        number = expression_id or named.NamedExpression.newExprId()
        none = self._jvm.scala.Option.empty()
        return named.Alias(expression, name, number, self._seq([]), none, self._seq([]))

    def _literal(self, value: Any) -> Any:
        return _object(self._catalyst.expressions, "Literal").apply(value)

    def _struct(self, parts: Sequence[tuple[str, Any]]) -> Any:
        flat = [one for name, part in parts for one in (self._literal(name), part)]
        return self._catalyst.expressions.CreateNamedStruct(self._seq(flat))

    def _part(self, struct: Any, number: int) -> Any:
        none = self._jvm.scala.Option.empty()
        return self._catalyst.expressions.GetStructField(struct, number, none)

    def _project(self, items: Sequence[Any], child: Any) -> Any:
        return self._catalyst.plans.logical.Project(self._seq(items), child)

    def frame(self, plan: Any) -> DataFrame:
        """A DataFrame of a plan."""
        of_rows = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows
        return DataFrame(of_rows(self.session._jsparkSession, plan), self.session)  # noqa: SLF001

    # What is refused

    def analyzed(self, frame: DataFrame) -> Any:
        """The plan of a query as Spark has analyzed it, with its CTEs in place."""
        plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
        return self._catalyst.optimizer.InlineCTE(True, False).apply(plan)  # noqa: FBT003

    def check_analyzed(self, plan: Any) -> None:
        """Refuse what is not the same for each row whenever it runs.

        Raises:
            RefusedSqlError: `input` is read not at all, or twice, or a function returns the time or
                the user.
        """
        reads = self._count_reads(plan)
        if reads != 1:
            text = "does not read the table `input`" if not reads else "reads `input` twice"
            raise RefusedSqlError(f"the SQL {text}: rows are made of one record each")

    def _count_reads(self, plan: Any) -> int:
        """How often a plan reads the input, in subqueries too; checks its functions on the way."""
        reads = 0
        for node in _nodes(plan):
            reads += _kind(node) == "CollectMetrics"
            for expression in _all(node.expressions()):
                for each in _nodes(expression):
                    self._check_function(each)
                    if _kind(each) in _SUBQUERIES:
                        reads += self._count_reads(each.plan())
        return reads

    def _check_function(self, expression: Any) -> None:
        kind = _kind(expression)
        if kind in _CLOCKS_AND_USERS:
            name = expression.prettyName()
            text = f"`{name}` says {_CLOCKS_AND_USERS[kind]}: a second try would write other rows"
            raise RefusedSqlError(text, start_of(expression))
        alone = all(child.deterministic() for child in _all(expression.children()))
        if not expression.deterministic() and alone:
            text = f"`{expression.prettyName()}` is not fixed: a second try would write other rows"
            raise RefusedSqlError(text, start_of(expression))

    def check_executed(self, frame: DataFrame) -> None:
        """Refuse a plan in which rows of `input` move between tasks.

        Raises:
            RefusedSqlError: They do.
        """
        waiting = [frame._jdf.queryExecution().executedPlan()]  # noqa: SLF001
        while waiting:
            node = waiting.pop()
            kind = _kind(node)
            if kind == "ReusedExchangeExec":
                kind = _kind(node.child())
            if "Broadcast" in kind and "Exchange" in kind:
                continue
            if "Exchange" in kind:
                raise RefusedSqlError("the SQL needs a shuffle: it does not work row by row")
            waiting += _all(node.children())

    # The untouched plan, with one more column

    def carrying(self, plan: Any, carried: Sequence[str]) -> Any:
        """The same plan, whose rows have a last column `CARRIED`.

        Args:
            plan: As `analyzed`.
            carried: Columns of the input that the SQL does not see.

        Raises:
            RefusedSqlError: A part of it does not work row by row.
        """
        found, named = self._carry(plan, carried)
        return self._project([*_all(plan.output()), named], found)

    def _carry(self, plan: Any, carried: Sequence[str]) -> tuple[Any, Any]:
        kind, children = _kind(plan), _all(plan.children())
        logical = self._catalyst.plans.logical
        if kind == "CollectMetrics":
            known = {each.name(): each for each in _all(plan.output())}
            parts = [(name, known[name]) for name in carried] or [("none", self._literal(0))]
            return plan, self._alias(self._struct(parts), CARRIED)
        if kind in _PASSED:
            return self._carry(children[0], carried)
        if kind == "Project":
            child, named = self._carry(children[0], carried)
            found = self._project([*_all(plan.projectList()), named], child)
            return found, named.toAttribute()
        if kind == "Filter":
            child, named = self._carry(children[0], carried)
            return logical.Filter(plan.condition(), child), named
        if kind == "Generate":
            child, named = self._carry(children[0], carried)
            return self._generate(plan, plan.generator(), child, outer=plan.outer()), named
        if kind == "Join":
            index = self._preserved(plan)
            children[index], named = self._carry(children[index], carried)
            return plan.withNewChildren(self._seq(children)), named
        inner = (node for each in _all(plan.expressions()) for node in _nodes(each))
        part = next((each for each in inner if _kind(each) in _OVER_ROWS), plan)
        raise RefusedSqlError(f"`{kind}` does not work row by row", start_of(part))

    def _generate(self, plan: Any, generator: Any, child: Any, *, outer: bool) -> Any:
        return self._catalyst.plans.logical.Generate(
            generator, self._seq([]), outer, plan.qualifier(), plan.generatorOutput(), child
        )

    def _preserved(self, join: Any) -> int:
        """Which side of a join is the input; every row of it is kept, or left out by itself."""
        sides = [_reads_input(child) for child in _all(join.children())]
        kind = str(join.joinType().toString())
        if all(sides) or kind not in (_INPUT_LEFT if sides[0] else _INPUT_RIGHT):
            text = f"a {kind} join makes rows of what no record has: keep `input` on the kept side"
            raise RefusedSqlError(text, start_of(join))
        return 0 if sides[0] else 1

    # The guarded plan

    def guarded(self, frame: DataFrame) -> Any:
        """The plan of `carrying` in which what fails marks its row.

        Args:
            frame: The untouched plan; Spark's own order of evaluation stays.

        Returns:
            A plan with a last column `FAILED`: 0, or a number in `may_fail`, counted from 1.

        Raises:
            NoGuardError: A part of it cannot be tried.
        """
        self.may_fail = []
        plan = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
        found = self._computed(self._guard(plan), _all(plan.output()))
        failed = self._literal(0) if found.failed is None else found.failed
        return self._project([*_all(plan.output()), self._alias(failed, FAILED)], found.plan)

    def _guard(self, plan: Any) -> _Guarded:
        if not _reads_input(plan) or _kind(plan) == "CollectMetrics":
            return _Guarded(plan)
        guards: dict[str, Callable[[Any], _Guarded]] = {
            "Project": self._guard_project,
            "Filter": self._guard_filter,
            "Generate": self._guard_generate,
            "Join": self._guard_join,
        }
        guard = guards.get(_kind(plan))
        if guard is None:
            raise NoGuardError(_kind(plan))
        return guard(plan)

    def _guard_project(self, plan: Any) -> _Guarded:
        below, items = self._guard(plan.child()), _all(plan.projectList())
        uses = Counter(_id(each) for item in items for each in _nodes(item) if _is_column(each))
        # What several items use is computed here.
        below = self._computed(below, [a for a in _all(plan.child().output()) if uses[_id(a)] > 1])
        shared = [self._tried(self._inlined(each, below)) for each in _repeated(items)]
        deferred = {}
        for item in items:
            value = item if _is_column(item) else item.child()
            if not _is_column(item) or _id(item) in below.deferred:
                deferred[_id(item)] = self._inlined(value, below)
        if shared:
            below = self._with_failed(below, shared, _all(below.plan.output()))
        return _Guarded(below.plan, below.failed, deferred)

    def _guard_filter(self, plan: Any) -> _Guarded:
        below = self._guard(plan.child())
        tried = self._tried(self._inlined(plan.condition(), below))
        marked = self._with_failed(below, [tried], [*_all(below.plan.output()), tried])
        return self._kept(marked, self._part(tried.toAttribute(), 0))

    def _kept(self, found: _Guarded, condition: Any, plan: Any = None) -> _Guarded:
        """Rows with a condition, and failed rows; `plan` is one over that of `found`."""
        kept = self._catalyst.expressions.Or(self._is_failed(found.failed), condition)
        plan = self._catalyst.plans.logical.Filter(kept, plan or found.plan)
        return _Guarded(plan, found.failed, found.deferred)

    def _guard_generate(self, plan: Any) -> _Guarded:
        generator = plan.generator()
        if _kind(generator) not in _LISTS:
            raise NoGuardError(_kind(generator))
        below = self._computed(self._guard(plan.child()), _all(plan.requiredChildOutput()))
        named = self._catalyst.expressions
        tried = self._tried(self._inlined(_all(generator.children())[0], below))
        values = self._alias(self._part(tried.toAttribute(), 0), f"{HIDDEN}list")
        found = self._with_failed(below, [tried], [*_all(below.plan.output()), values])
        if not plan.outer():
            size = named.Size(values.toAttribute(), False)  # noqa: FBT003
            found = self._kept(found, named.GreaterThan(size, self._literal(0)))
        again = generator.withNewChildren(self._seq([values.toAttribute()]))
        rows = self._generate(plan, again, found.plan, outer=True)
        return _Guarded(rows, found.failed, found.deferred)

    def _guard_join(self, plan: Any) -> _Guarded:
        children = _all(plan.children())
        index = self._preserved(plan)
        below, condition = self._guard(children[index]), plan.condition()
        if condition.isDefined():
            used = list(filter(_is_column, _nodes(condition.get())))
            ours = {_id(each) for each in _all(children[index].output())}
            below, found = self._with_keys(self._computed(below, used), condition.get(), ours)
            condition = self._jvm.scala.Option.apply(found)
        kind = str(plan.joinType().toString())
        children[index] = below.plan
        if below.failed is None or kind.endswith("Outer"):
            join = self._catalyst.plans.logical.Join(
                *children, plan.joinType(), condition, plan.hint()
            )
            return _Guarded(join, below.failed, below.deferred)
        # A failed row has to stay, whatever it meets.
        plans, named = self._catalyst.plans, self._catalyst.expressions
        matched = self._alias(self._literal(True), f"{HIDDEN}matched")  # noqa: FBT003
        column = matched.toAttribute()
        if kind in ("LeftSemi", "LeftAnti"):
            outer = plans.ExistenceJoin(column)
            met = named.Not(column) if kind == "LeftAnti" else column
        else:
            other = children[1 - index]
            children[1 - index] = self._project([*_all(other.output()), matched], other)
            outer = _object(plans, f"{'Right' if index else 'Left'}Outer")
            met = named.IsNotNull(column)
        join = plans.logical.Join(*children, outer, condition, plan.hint())
        return self._kept(below, met, join)

    def _with_keys(self, below: _Guarded, condition: Any, ours: set[int]) -> tuple[_Guarded, Any]:
        """The condition of a join over columns; keys are computed of every row, and may fail."""
        kind, children = _kind(condition), _all(condition.children())
        if all(map(_is_comparison, _nodes(condition))):
            return below, condition
        if kind == "And":
            below, left = self._with_keys(below, children[0], ours)
            below, right = self._with_keys(below, children[1], ours)
            return below, self._catalyst.expressions.And(left, right)
        sides = [{_id(each) for each in _nodes(side) if _is_column(each)} for side in children]
        if kind != "EqualTo" or any(len({n in ours for n in side}) != 1 for side in sides):
            raise NoGuardError("the condition of a join")
        for place, side in enumerate(children):
            if not sides[place] <= ours or _is_column(side):
                continue
            tried = self._tried(self._inlined(side, below))
            key = self._alias(self._part(tried.toAttribute(), 0), f"{HIDDEN}key")
            below = self._with_failed(below, [tried], [*_all(below.plan.output()), key])
            children[place] = key.toAttribute()
        return below, condition.withNewChildren(self._seq(children))

    def _inlined(self, expression: Any, below: _Guarded) -> Any:
        """An expression over the plan's own columns."""
        if _is_column(expression):
            return below.deferred.get(_id(expression), expression)
        children = _all(expression.children())
        found = [self._inlined(child, below) for child in children]
        if all(one is other for one, other in zip(found, children, strict=True)):
            return expression
        return expression.withNewChildren(self._seq(found))

    def _computed(self, below: _Guarded, wanted: Sequence[Any]) -> _Guarded:
        """The same rows with columns that were deferred; where one fails, its row is marked."""
        deferred, tried, columns = dict(below.deferred), [], []
        for each in wanted:
            value = deferred.pop(_id(each), None)
            if value is None:
                continue
            if each.name() != CARRIED and _kind(value) not in ("AttributeReference", "Literal"):
                tried.append(self._tried(value))
                value = self._part(tried[-1].toAttribute(), 0)
            columns.append(self._alias(value, each.name(), each.exprId()))
        if not columns:
            return below
        found = self._with_failed(below, tried, [*_all(below.plan.output()), *columns])
        return _Guarded(found.plan, found.failed, deferred)

    def _tried(self, expression: Any) -> Any:
        """An expression that is null where another one fails, else a struct of its value."""
        self.may_fail.append(MayFail(str(expression.sql()), start_of(expression)))
        number = len(self.may_fail)
        tried = self._catalyst.expressions.TryEval(self._struct([("value", expression)]))
        return self._alias(tried, f"{HIDDEN}tried_{number}")

    def _with_failed(self, below: _Guarded, tried: Sequence[Any], outs: Sequence[Any]) -> _Guarded:
        """Evaluate `tried` below `outs`, and mark rows in which one of them fails."""
        named = self._catalyst.expressions
        items = list(outs)
        if not tried:
            return _Guarded(self._project(items, below.plan), below.failed, below.deferred)
        inner = self._project([*_all(below.plan.output()), *tried], below.plan)
        failed = self._literal(0)
        for each in reversed(tried):
            number = int(each.name().rpartition("_")[2])
            is_null = named.IsNull(each.toAttribute())
            failed = named.If(is_null, self._literal(number), failed)
        if below.failed is not None:
            failed = named.If(self._is_failed(below.failed), below.failed, failed)
        marked = self._alias(failed, FAILED)
        items = [each.toAttribute() if each in tried else each for each in items]
        skipped = None if below.failed is None else below.failed.exprId()
        items = [each for each in items if skipped is None or not each.exprId().equals(skipped)]
        plan = self._project([*items, marked], inner)
        return _Guarded(plan, marked.toAttribute(), below.deferred)

    def _is_failed(self, failed: Any) -> Any:
        named = self._catalyst.expressions
        return named.Not(named.EqualTo(failed, self._literal(0)))


def start_of(part: Any) -> int | None:
    """Number of the first character of a part of a plan in the SQL; None when it is not known."""
    found = part.origin().startIndex()
    return int(found.get()) if found.isDefined() else None


def _object(package: Any, name: str) -> Any:
    """The one object of a Scala class."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def _all(found: Any) -> list[Any]:
    """A Scala sequence as a list."""
    indexed = found.toIndexedSeq()
    return [indexed.apply(place) for place in range(indexed.length())]


def _kind(part: Any) -> str:
    return str(part.getClass().getSimpleName())


def _nodes(tree: Any) -> Iterator[Any]:
    """A tree from the top: of plans, or of expressions."""
    yield tree
    for child in _all(tree.children()):
        yield from _nodes(child)


def _reads_input(plan: Any) -> bool:
    return any(_kind(node) == "CollectMetrics" for node in _nodes(plan))


def _id(column: Any) -> int:
    """Id of a column, or of what an alias makes."""
    return int(column.exprId().id())


def _is_column(expression: Any) -> bool:
    return _kind(expression) == "AttributeReference"


def _repeated(items: Sequence[Any]) -> list[Any]:
    """Expressions that a projection has twice: Spark computes them once, before all others."""
    seen, found = Counter[str](), []
    for each in (part for item in items for part in _always(item)):
        if each.children().nonEmpty() and _kind(each) != "Alias":
            text = str(each.canonicalized())
            seen[text] += 1
            if seen[text] == 2:  # noqa: PLR2004
                found.append(each)
    return found


def _always(tree: Any) -> Iterator[Any]:
    """The parts of an expression that are computed in every row."""
    kind = _kind(tree)
    if kind == "LambdaFunction" or (kind == "Alias" and tree.name() == CARRIED):
        return
    yield tree
    children = _all(tree.children())
    for child in children[:1] if kind in _BRANCHES else children:
        yield from _always(child)


def _is_comparison(expression: Any) -> bool:
    """Whether an expression compares plain columns, which cannot fail."""
    return _kind(expression) in (
        *("And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan", "GreaterThan"),
        *("LessThanOrEqual", "GreaterThanOrEqual", "IsNull", "IsNotNull"),
        *("AttributeReference", "Literal"),
    )
