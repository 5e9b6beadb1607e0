#pragma once
// Reading the hyper-parameters that architectures share.

#include <cstddef>
#include <string>
#include <string_view>

#include "model/gguf.h"
#include "model/model_spec.h"

namespace quire {

/// Keys of one architecture: key("block_count") is "llama.block_count".
class HparamReader {
 public:
  HparamReader(const GgufFile& file, std::string architecture)
      : file_(file), architecture_(std::move(architecture)) {}

  const GgufFile& file() const { return file_; }
  std::string key(std::string_view suffix) const {
    return architecture_ + "." + std::string(suffix);
  }

  Result<std::size_t> require(std::string_view suffix, std::size_t min, std::size_t max) const;
  Result<std::size_t> optional(std::string_view suffix, std::size_t min, std::size_t max,
                               std::size_t fallback) const;
  /// Must be finite and within [min, max].
  Result<double> require_real(std::string_view suffix, double min, double max) const;
  Result<double> optional_real(std::string_view suffix, double min, double max,
                               double fallback) const;

 private:
  const GgufFile& file_;
  std::string architecture_;
};

/// Layers, dimensions, head counts (per layer where the file has arrays), norm epsilon, trained
/// context and vocabulary: what every decoder-only transformer has.
Status read_common(const HparamReader& reader, ModelSpec& spec);

/// vocab_size, which not every file states, must be the number of rows of the embedding.
Status check_vocab_size(const HparamReader& reader, std::size_t n_rows);

/// The RoPE that the file's rope.* keys and rope_freqs tensor describe.
Result<RopeSpec> read_rope(const HparamReader& reader, const ModelSpec& spec, RopeStyle style);

/// attention.sliding_window; 0 if absent.
Result<std::size_t> read_window(const HparamReader& reader);

}  // namespace quire
