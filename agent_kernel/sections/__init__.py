"""Sections: the named parts of the prompt, one file each; ALL keeps the documented order.

May not put text into a request: static ones are the system text, others attachments in the log.
"""

from __future__ import annotations

from agent_kernel.core.prompt import Section
from agent_kernel.sections.environment import ENVIRONMENT
from agent_kernel.sections.git import GIT
from agent_kernel.sections.identity import IDENTITY
from agent_kernel.sections.notebook import NOTEBOOK
from agent_kernel.sections.rules import RULES

ALL: tuple[Section, ...] = (
    IDENTITY,
    RULES,
    ENVIRONMENT,
    GIT,
    NOTEBOOK,
)
