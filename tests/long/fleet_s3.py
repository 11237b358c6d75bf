"""Fleet on S3: a folder in a loopback S3 server, read through fsspec, has the sums of the folder.

May not leave the machine; without moto and s3fs it says so and does nothing.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_kernel import frames, transcripts
from agent_kernel.frames import fleet
from agent_kernel.frames.scan import walk
from agent_kernel.testing import corpus
from tests.long.fleet import FIELDS, differences, sums

SLICE = 1
BUCKET = "sessions"


@contextmanager
def store() -> Iterator[str]:
    """The address of an S3 server on loopback, in this process, with an account that is none."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    os.environ |= {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        yield address
    finally:
        server.stop()


def fill(folder: Path) -> None:
    """Put every session file below `folder` into the bucket."""
    import fsspec

    system = fsspec.filesystem("s3")
    system.mkdir(BUCKET)
    for path in walk(folder):
        system.put_file(path, f"{BUCKET}/{Path(path).relative_to(folder.resolve())}")


def run(seed: int, start: int, steps: int, until: float) -> dict[str, int]:
    """Read the corpus, or a synthetic one, from the folder and from the bucket; compare."""
    missing = [name for name in ("moto", "s3fs") if importlib.util.find_spec(name) is None]
    if missing:
        print(f"fleet_s3: not run, {' and '.join(missing)} not installed", file=sys.stderr)
        return {"steps": 0, "violations": 0}
    with tempfile.TemporaryDirectory() as name, store():
        folder = Path(os.environ.get("AGENT_KERNEL_CORPUS") or name)
        if folder == Path(name):
            corpus.write(folder, megabytes=10, seed=seed, session_kb=200)
        fill(folder)
        found = sums(fleet.load(f"s3://{BUCKET}", readers=transcripts.ALL).calls)
        total = frames.load(folder, readers=transcripts.ALL, cache=False).totals()["total"]
    said = zip(FIELDS, ("input", "output", *FIELDS[2:]), strict=True)
    wanted = {one: float(total[name]) for one, name in said}
    wrong = differences(found, {"calls": total["calls"], **wanted, "usd_recorded": total["usd"]})
    for text in wrong:
        print(f"fleet_s3: {text}", file=sys.stderr)
    return {"steps": 1, "violations": len(wrong), "calls": int(found["calls"])}
