#pragma once

#include <cstddef>

#include "engine/engine.h"

namespace quire {

/// Most tokens of one forward pass: beyond it, larger passes only cost memory.
inline constexpr std::size_t kMaxPrefillChunk = 4096;
inline constexpr std::size_t kMaxThreads = 512;

/// Refuses values that cannot work, whatever the model.
Status check_options(const EngineOptions& options);

/// Fills in what the model decides: context, threads and KV memory. The KV memory chosen for the
/// user is what one sequence of `context` tokens needs, but at most half of
/// what available_memory() says.
Result<EngineOptions> resolve_options(EngineOptions options, const ModelSpec& spec);

}  // namespace quire
