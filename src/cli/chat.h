#pragma once

#include "cli/run_flags.h"
#include "engine/session.h"

namespace quire {

/// `quire run --chat`: one message per line of standard input until it ends. `request` holds
/// everything but the prompt. Returns the exit code.
int chat(Engine& engine, const RunFlags& flags, GenerateRequest request, double load_s);

}  // namespace quire
