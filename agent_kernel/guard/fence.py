"""Fences: text of strangers marked as such before a model reads it, and look-alikes of our tags.

It changes what a text seems to be, never what it says.
"""

import html
import re
import secrets

from agent_kernel.guard.render import visible

TAGS = ("untrusted", "system-reminder", "task-notification", "memory-attachment")
SOURCE = 300  # characters of a source's name that are shown
_GAP = "[\\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff]{0,4}"
_ANGLE = "[<\uff1c\ufe64\u2039\u3008\u27e8]"
_LOOKALIKE = re.compile(
    f"{_ANGLE}(?={_GAP}[/\uff0f]?{_GAP}"
    f"(?:{'|'.join(_GAP.join(re.escape(letter) for letter in tag) for tag in TAGS)}))",
    re.IGNORECASE,
)
# Capitals only: `human:` and `assistant:` are keys of many a configuration file.
_ROLE = re.compile(rf"(?m)^([ \t]{{0,16}})(Human|HUMAN|Assistant|ASSISTANT)(?={_GAP}[:\uff1a])")


def escape_tags(text: str) -> str:
    """Return `text` without look-alikes of the tags and turns that only we may write.

    Done to text of servers, web pages and tasks; files and commands are shown as they are, for an
    edit must match them. `<untrusted`, `<system-reminder` and the like lose their bracket, a
    role name that opens a line, as in `Human:`, gets a backslash before it.
    """
    return _ROLE.sub(r"\1\\\2", _LOOKALIKE.sub("&lt;", text))


def fence(text: str, source: str) -> str:
    """Return `text` between tags that it cannot close, for their name is random each time.

    `source` (an address, a server, a file) is shown with hidden characters spelled out.
    """
    name = secrets.token_hex(8)
    shown = html.escape(visible(source[:SOURCE], one_line=True), quote=True)
    body = escape_tags(text)
    return f'<untrusted source="{shown}" id="{name}">\n{body}\n</untrusted-{name}>'
