"""A server on a tiny model that can chat, for the tests that read docs/openapi.yaml."""

import struct
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis.configuration import set_hypothesis_home_dir

ROOT = Path(__file__).resolve().parents[2]
set_hypothesis_home_dir(ROOT / ".cache/hypothesis")  # tables that take seconds to make
sys.path.insert(0, str(ROOT / "tests/serve"))

from quire_server import TINY, Server  # noqa: E402

KEY_OF_TEMPLATE = "tokenizer.chat_template"
TEMPLATE = ("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")
STRING = 8  # a type of GGUF's
ALIGNMENT = 32


def with_chat_template(model: bytes) -> bytes:
    """The GGUF file with one more entry, as long as keeps the tensors where they are aligned."""
    assert model[:4] == b"GGUF" and KEY_OF_TEMPLATE.encode() not in model
    version, n_tensors, n_entries = struct.unpack_from("<IQQ", model, 4)
    head = struct.pack("<Q", len(KEY_OF_TEMPLATE)) + KEY_OF_TEMPLATE.encode()
    size = len(head) + 4 + 8 + len(TEMPLATE)
    template = TEMPLATE + "{# #}".replace(" ", " " * ((-size - 4) % ALIGNMENT))
    entry = head + struct.pack("<IQ", STRING, len(template)) + template.encode()
    assert len(entry) % ALIGNMENT == 0
    return model[:4] + struct.pack("<IQQ", version, n_tensors, n_entries + 1) + entry + model[24:]


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    model = tmp_path_factory.mktemp("model") / "tiny.gguf"
    model.write_bytes(with_chat_template(TINY.read_bytes()))
    # An answer without a limit of its own ends where this context does.
    server = Server(model, "--ctx", "192", "--threads", "1", "--log-level", "warning",
                    "--model-name", "tiny", "--model-name", "a/b")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def document():
    return yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())
