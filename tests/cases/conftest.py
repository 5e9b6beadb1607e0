"""The fixtures of tests/cli, for cases that need the whole product as a process."""

import importlib.util
from pathlib import Path

_path = Path(__file__).resolve().parents[1] / "cli/conftest.py"
_spec = importlib.util.spec_from_file_location("quire_cli_fixtures", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

quire, smollm2, gemma3, binary = _module.quire, _module.smollm2, _module.gemma3, _module.binary
