from sluiceway.api import RouteSummary as RouteSummary
from sluiceway.api import RunSummary as RunSummary
from sluiceway.api import run as run

__version__: str
