"""Testing: a loopback Messages API with faults, for this project's tests and for other people's.

May not load any client library or reach another host.
"""

from agent_kernel.testing.faults import ALL as FAULTS
from agent_kernel.testing.scenario import Scenario
from agent_kernel.testing.server import MessagesServer, Recorded

__all__ = ["FAULTS", "MessagesServer", "Recorded", "Scenario"]
