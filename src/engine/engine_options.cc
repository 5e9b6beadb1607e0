#include "engine/engine_options.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/thread_pool.h"
#include "engine/available_memory.h"
#include "kv/kv_arithmetic.h"

namespace quire {

Status check_options(const EngineOptions& options) {
  if (!is_valid_page_size(options.page_size))
    return fail(ErrorCode::kInvalidArgument, "page size {} is not one of 16, 32, 64, 128",
                options.page_size);
  if (options.n_threads > kMaxThreads)
    return fail(ErrorCode::kInvalidArgument, "{} threads asked for, at most {} are supported",
                options.n_threads, kMaxThreads);
  if (options.prefill_chunk < 1 || options.prefill_chunk > kMaxPrefillChunk)
    return fail(ErrorCode::kInvalidArgument, "prefill chunk {} is not between 1 and {}",
                options.prefill_chunk, kMaxPrefillChunk);
  if (options.context > kMaxSequenceLength)
    return fail(ErrorCode::kInvalidArgument, "context {} is above the limit of {} tokens",
                options.context, kMaxSequenceLength);
  return {};
}

Status check_weights_fit(const GgufFile& file, Precision precision, std::uint64_t available) {
  // In doubles, which no sum of lies wraps.
  double needed = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.ne.size() < 2) continue;
    // Packed, a format takes about what it takes in the file; the reference expands it to f32.
    needed += precision == Precision::kReference
                  ? static_cast<double>(tensor.n_elements()) * sizeof(float)
                  : static_cast<double>(tensor.data.size());
  }
  if (needed <= static_cast<double>(available)) return {};
  return fail(ErrorCode::kOutOfMemory, "{}: its weights need about {} of memory, {} are available",
              file.name(), format_byte_size(static_cast<std::uint64_t>(std::min(needed, 1e19))),
              format_byte_size(available));
}

Result<EngineOptions> resolve_options(EngineOptions options, const ModelSpec& spec) {
  if (options.context == 0) options.context = std::min(spec.context_length, kMaxSequenceLength);
  if (options.n_threads == 0) options.n_threads = std::min(available_cpus(), kMaxThreads);
  const KvConfig config = spec.kv_config(options.kv_type, options.page_size, 0);
  QUIRE_RETURN_IF_ERROR(check_kv_config(config));
  if (options.kv_memory == 0) {
    // While a chunk is in flight its oldest token still needs its whole window: one chunk more
    // than what a sequence at rest keeps.
    std::uint64_t pages = 0;
    for (const KvLayerSpec& layer : config.layers) {
      const std::size_t span =
          layer.window == 0
              ? options.context
              : std::min(options.context, layer.window + options.prefill_chunk + options.page_size);
      pages += pages_for(span, options.page_size) + 1;
    }
    // In doubles, which no product wraps.
    const double wanted = static_cast<double>(pages) * static_cast<double>(kv_page_bytes(config)) *
                          static_cast<double>(options.kv_sequences);
    const std::uint64_t most = available_memory() / 2;
    options.kv_memory =
        wanted < static_cast<double>(most) ? static_cast<std::uint64_t>(wanted) : most;
  }
  return options;
}

}  // namespace quire
