"""Model verb: which model would answer here, and why.

May not open a connection, and never prints a key or a part of one.
"""

from __future__ import annotations

import argparse
import json
import sys

from agent_kernel.kernel.build import Options, choice_of, key_words
from agent_kernel.kernel.settings import Settings, SettingsError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments."""
    parser.add_argument("-m", "--model", help="as a cell would ask for it")
    parser.add_argument("--base-url", help="the address of a Messages API")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def main(args: argparse.Namespace) -> int:
    """Print provider, model, endpoint, base_url, where a key was found, and why."""
    try:
        choice = choice_of(None, Settings(), Options(model=args.model, base_url=args.base_url))
    except (SettingsError, ValueError) as error:
        sys.stderr.write(f"agent-kernel model: {error}\n")
        return 2
    told = {
        "provider": choice.provider,
        "model": choice.model,
        "endpoint": choice.endpoint,
        "base_url": choice.base_url,
        "key": {"found": choice.key_found, "from": choice.key_from},
        "why": choice.why,
        "looked": list(choice.looked),
    }
    if args.json:
        sys.stdout.write(json.dumps(told) + "\n")
    else:
        sys.stdout.write(f"{choice.model} by {choice.provider}: {choice.why}\n")
        sys.stdout.write(f"key: {key_words(choice)}\n")
    return 0
