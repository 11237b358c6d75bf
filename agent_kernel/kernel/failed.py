"""Failed: how a turn that did not complete is told: one readable line, and the cell fails with it.

May not hide a bug of ours: an error that is not in KNOWN keeps its traceback.
"""

from __future__ import annotations

from agent_kernel.core.calling import ValidationError
from agent_kernel.core.log import LogError
from agent_kernel.core.model import ProviderError
from agent_kernel.core.prompt import PromptError
from agent_kernel.core.query import TurnError
from agent_kernel.guard.rules import WrongForm
from agent_kernel.kernel.settings import SettingsError

# What is said in one line; any other error of ours keeps its traceback.
KNOWN = (
    ProviderError,
    TurnError,
    LogError,
    ValidationError,
    SettingsError,
    PromptError,
    WrongForm,
)


class TurnFailed(Exception):
    """A turn that did not complete, in one readable line; the cell fails with it."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class TurnInterrupted(TurnFailed):
    """The person interrupted the turn; what was said so far is kept."""
