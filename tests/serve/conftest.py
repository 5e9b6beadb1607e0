"""A server for each module, with the module's MODEL and FLAGS, and ones to compare with."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from quire_server import ORACLE_FLAGS, SMOLLM2, TINY, Server  # noqa: E402


def served(model, *flags):
    server = Server(model, *flags)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def server(request):
    module = request.module
    yield from served(getattr(module, "MODEL", SMOLLM2), *getattr(module, "FLAGS", ()))


@pytest.fixture(scope="module")
def client(server):
    with server.client() as client:
        yield client


@pytest.fixture(scope="session")
def oracle():
    """SmolLM2, one request at a time on a cold cache."""
    yield from served(SMOLLM2, *ORACLE_FLAGS, "--ctx", "4096")


@pytest.fixture(scope="session")
def tiny_oracle():
    yield from served(TINY, *ORACLE_FLAGS)
