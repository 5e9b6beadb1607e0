"""Includes point down the layers, and every file is small."""

from repository import INCLUDE, LAYERS, ROOT, name_of, with_suffix

# The planner decides over numbers and never touches bytes, so these are all that it may see of the
# two layers that hold them.
SCHED_MAY_INCLUDE = {"kv/kv_arithmetic.h"}
LINE_LIMIT = 400


def wrong_includes(layer: str, text: str) -> list[str]:
    """The includes of a file of `layer` that its layer does not allow."""
    wrong = []
    for include in INCLUDE.findall(text):
        other = include.split("/")[0]
        if other not in LAYERS:
            continue
        if LAYERS.index(other) > LAYERS.index(layer):
            wrong.append(include)
        elif layer == "sched" and other in ("kernels", "kv") and include not in SCHED_MAY_INCLUDE:
            wrong.append(include)
    return wrong


def sources_by_layer():
    for file in with_suffix(".h", ".cc"):
        parts = file.relative_to(ROOT).parts
        if parts[0] == "src":
            yield parts[1], file


def test_every_folder_of_src_is_a_layer():
    assert {layer for layer, _ in sources_by_layer()} <= set(LAYERS)


def test_cmake_adds_the_layers_in_the_same_order():
    text = (ROOT / "CMakeLists.txt").read_text()
    listed = text.split("set(QUIRE_LAYERS ")[1].split(")")[0].split()
    assert listed == [layer for layer in LAYERS if layer in listed]


def test_includes_point_down_the_layers():
    wrong = [f"{name_of(file)} includes {include}" for layer, file in sources_by_layer()
             for include in wrong_includes(layer, file.read_text())]
    assert wrong == []


def test_a_wrong_include_is_found():
    assert wrong_includes("kv", '#include "text/tokenizer.h"\n') == ["text/tokenizer.h"]
    assert wrong_includes("base", '  # include "kernels/kernels.h"\n') == ["kernels/kernels.h"]
    assert wrong_includes("sched", '#include "kv/kv_manager.h"\n') == ["kv/kv_manager.h"]
    assert wrong_includes("cli", '#include "base/result.h"\n#include "x.h"\n') == []


def test_quoted_includes_name_a_file_of_ours():
    """Anything of another project is included with angle brackets."""
    folders = (ROOT / "src", ROOT, ROOT / "tests", ROOT / "rust/quire_bridge/include")
    missing = [f"{name_of(file)} includes {include}" for file in with_suffix(".h", ".cc")
               for include in INCLUDE.findall(file.read_text())
               if not any((folder / include).is_file() for folder in (*folders, file.parent))]
    assert missing == []


def test_files_are_short():
    code = with_suffix(".h", ".cc", ".py", ".rs") + [ROOT / "Makefile"]
    code += [file for file in (ROOT / "tools").iterdir() if file.is_file()]
    lengths = {name_of(file): len(file.read_text().splitlines()) for file in code}
    assert {name: n for name, n in lengths.items() if n > LINE_LIMIT} == {}
