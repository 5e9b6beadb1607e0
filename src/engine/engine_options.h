#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/engine.h"
#include "model/gguf.h"

namespace quire {

/// Most tokens of one forward pass: beyond it, larger passes only cost memory.
inline constexpr std::size_t kMaxPrefillChunk = 4096;
inline constexpr std::size_t kMaxThreads = 512;

/// Refuses values that cannot work, whatever the model.
Status check_options(const EngineOptions& options);

/// Refuses a model whose matrices, as they are packed for computing, are more than `available`
/// bytes: otherwise the system would end the process without a word while they load.
Status check_weights_fit(const GgufFile& file, Precision precision, std::uint64_t available);

/// Fills in what the model decides: context, threads and KV memory. The KV memory chosen for the
/// user is what kv_sequences of `context` tokens need, but at most half of
/// what available_memory() says.
Result<EngineOptions> resolve_options(EngineOptions options, const ModelSpec& spec);

}  // namespace quire
