"""Entry: `python -m agent_kernel VERB …`.

May not hold anything but the call.
"""

from agent_kernel.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
