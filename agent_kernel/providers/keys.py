"""Keys: where the key of a host is found; its value is never shown, not even its end.

May not send a key anywhere and may not print one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


@dataclass(frozen=True, slots=True)
class Key:
    """A key and the place it was found in; `repr` holds only the place."""

    value: str = field(repr=False)
    found_in: str
    bearer: bool = False  # an auth token: always goes as Authorization: Bearer

    def hide(self, text: str) -> str:
        """Return `text` with the key's value replaced."""
        return text.replace(self.value, "[key]") if len(self.value) >= 4 else text


def find_key(env: Mapping[str, str]) -> Key | None:
    """Return the first key of VARIABLES that is set and not blank, else None."""
    for name in VARIABLES:
        value = env.get(name, "").strip()
        if value:
            return Key(value, name, name == "ANTHROPIC_AUTH_TOKEN")
    return None


def looked_at() -> str:
    """Return the places a key is looked for, as a sentence's end."""
    return " or ".join(VARIABLES)
