"""Fixtures of the guard's tests: a stage of loopback servers for what is fetched."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.guard.acting_server import Server, Stage, certificate


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("certificates")
    return {name: certificate(folder, name) for name in ("ok.test", "other.test")}


@pytest.fixture
def stage(certificates: dict[str, tuple[Path, Path]]) -> Iterator[Stage]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificates["ok.test"])
    trusted = ssl.create_default_context(cafile=str(certificates["ok.test"][0]))
    trusted.load_verify_locations(certificates["other.test"][0])
    with Server().running() as plain, Server(context=context).running() as secure:
        yield Stage(plain, secure, trusted)
