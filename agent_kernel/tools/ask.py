"""Ask: a question to the person, and nobody's invented answer when there is no person.

May not decide how it is asked: the roof hands in `ask`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_kernel.core.tool import Answer, Input, Tool, ToolContext, ToolError, text_answer

NOBODY = "nobody to ask: no person is here; decide by what you were told, and say what you assumed"

DESCRIPTION = (
    "Ask the person when only they can decide and the answer changes what you do; kind=plan shows "
    "a plan for approval before you change anything."
)


class AskInput(Input):
    """Input of `ask`."""

    question: str = Field(min_length=1)
    options: list[str] = Field([], max_length=4)
    multiple: bool = False
    kind: Literal["question", "plan"] = "question"


async def run(value: AskInput, ctx: ToolContext) -> Answer:
    """Return the person's answer, word for word. Raises ToolError when there is nobody to ask."""
    if len(set(value.options)) < len(value.options):
        raise ToolError("two options are the same; give different ones")
    ask = ctx.service("ask", NOBODY)
    given = await ask(value.question, value.options, value.multiple, value.kind)
    if given is None or given == []:
        raise ToolError("the person gave no answer; go on without, or stop and say what is missing")
    answers = [given] if isinstance(given, str) else [str(each) for each in given]
    said = answers[0] if len(answers) == 1 else "\n".join(f"- {each}" for each in answers)
    return text_answer(f"The person answered: {said}", kind=value.kind, answers=answers)


ASK = Tool("ask", DESCRIPTION, AskInput, run)
