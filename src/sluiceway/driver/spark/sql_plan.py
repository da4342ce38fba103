"""Plans of a user's SQL, rewritten so that each row carries which record it is of.

The plan that Spark has analyzed stays as it is, except that each projection passes one more column
on. After a data error a second form is used: what may fail is tried, and rows that fail are marked.
The trees are Spark's own classes, through py4j.
"""

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
    """A plan whose rows say which expression has failed; `failed` is None where none may yet."""

    plan: Any
    failed: Any = None


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
        raise RefusedSqlError(f"`{kind}` does not work row by row", start_of(plan))

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
        found = self._guard(plan)
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
        below = self._guard(plan.child())
        items = _all(plan.projectList())
        tried, mapped = [], {}
        for place, item in enumerate(items):
            if not _is_plain(item):
                tried.append(self._tried(item.child()))
                value = self._part(tried[-1].toAttribute(), 0)
                mapped[place] = self._alias(value, item.name(), item.exprId())
        outs = [mapped.get(place, item) for place, item in enumerate(items)]
        return self._with_failed(below, tried, outs)

    def _guard_filter(self, plan: Any) -> _Guarded:
        below = self._guard(plan.child())
        named = self._catalyst.expressions
        tried = self._tried(plan.condition())
        marked = self._with_failed(below, [tried], [*_all(below.plan.output()), tried])
        kept = named.Or(self._is_failed(marked.failed), self._part(tried.toAttribute(), 0))
        return _Guarded(self._catalyst.plans.logical.Filter(kept, marked.plan), marked.failed)

    def _guard_generate(self, plan: Any) -> _Guarded:
        below = self._guard(plan.child())
        generator = plan.generator()
        if _kind(generator) not in _LISTS:
            raise NoGuardError(_kind(generator))
        named = self._catalyst.expressions
        tried = self._tried(_all(generator.children())[0])
        values = self._alias(self._part(tried.toAttribute(), 0), f"{HIDDEN}list")
        marked = self._with_failed(below, [tried], [*_all(below.plan.output()), values])
        found = marked.plan
        if not plan.outer():
            size = named.Size(values.toAttribute(), False)  # noqa: FBT003
            some = named.GreaterThan(size, self._literal(0))
            kept = named.Or(self._is_failed(marked.failed), some)
            found = self._catalyst.plans.logical.Filter(kept, found)
        again = generator.withNewChildren(self._seq([values.toAttribute()]))
        return _Guarded(self._generate(plan, again, found, outer=True), marked.failed)

    def _guard_join(self, plan: Any) -> _Guarded:
        children = _all(plan.children())
        index = self._preserved(plan)
        below = self._guard(children[index])
        condition = plan.condition()
        if condition.isDefined() and not all(map(_is_comparison, _nodes(condition.get()))):
            raise NoGuardError("the condition of a join")
        kind = str(plan.joinType().toString())
        children[index] = below.plan
        if below.failed is None or kind.endswith("Outer"):
            return _Guarded(plan.withNewChildren(self._seq(children)), below.failed)
        if kind not in ("Inner", "Cross"):
            raise NoGuardError(kind)
        # A failed row has to stay, whatever it meets.
        matched = self._alias(self._literal(True), f"{HIDDEN}matched")  # noqa: FBT003
        other = children[1 - index]
        children[1 - index] = self._project([*_all(other.output()), matched], other)
        outer = _object(self._catalyst.plans, f"{'Right' if index else 'Left'}Outer")
        join = self._catalyst.plans.logical.Join(*children, outer, condition, plan.hint())
        named = self._catalyst.expressions
        kept = named.Or(self._is_failed(below.failed), named.IsNotNull(matched.toAttribute()))
        return _Guarded(self._catalyst.plans.logical.Filter(kept, join), below.failed)

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
            if below.failed is not None:
                items.append(below.failed)
            return _Guarded(self._project(items, below.plan), below.failed)
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
        return _Guarded(self._project([*items, marked], inner), marked.toAttribute())

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


def _is_plain(item: Any) -> bool:
    """Whether an item of a projection cannot fail."""
    if _kind(item) == "AttributeReference" or item.name() == CARRIED:
        return True
    return _kind(item) == "Alias" and _kind(item.child()) in ("AttributeReference", "Literal")


def _is_comparison(expression: Any) -> bool:
    """Whether an expression compares plain columns, which cannot fail."""
    return _kind(expression) in (
        *("And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan", "GreaterThan"),
        *("LessThanOrEqual", "GreaterThanOrEqual", "IsNull", "IsNotNull"),
        *("AttributeReference", "Literal"),
    )
