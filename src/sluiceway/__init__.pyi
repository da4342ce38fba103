from sluiceway.api import PointFile as PointFile
from sluiceway.api import RouteSummary as RouteSummary
from sluiceway.api import RunSummary as RunSummary
from sluiceway.api import TablePoint as TablePoint
from sluiceway.api import read_at as read_at
from sluiceway.api import run as run

__version__: str
