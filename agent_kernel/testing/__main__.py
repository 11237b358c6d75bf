"""Entry: `python -m agent_kernel.testing` runs the loopback server.

May not hold anything but the call.
"""

from agent_kernel.testing.main import main

if __name__ == "__main__":
    raise SystemExit(main())
