#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/kv_manager.h"

namespace quire {

/// The tokens of one sequence in a forward pass: input rows [first_row, first_row + n_tokens) stand
/// at positions [position, position + n_tokens).
struct SequenceSlice {
  std::size_t first_row = 0;
  std::size_t n_tokens = 0;
  std::size_t position = 0;
};

/// What a forward pass gives for each wanted row.
enum class ModelOutput : std::uint8_t {
  kLogits,  // [n_vocab]
  kHidden,  // [hidden_dim]: what the LM head reads, the last layer's residual normed
};

/// One forward pass as flat arrays. Everything in it is already checked: ids are in range and the
/// page tables have room for every position.
struct ModelInput {
  std::span<const TokenId> tokens;           // [n_rows]
  std::span<const SequenceSlice> sequences;  // in row order, covering all rows
  std::span<const PageTableView> tables;     // [n_sequences, n_layers]
  std::span<const std::size_t> logit_rows;   // rows whose output is wanted
  ModelOutput output = ModelOutput::kLogits;
};

/// Rows of the embedding that are read from the mapped file before it leaves memory again: each
/// brings its whole neighbourhood in, 64 KiB of it on Linux, and the embedding would be there twice
/// in the end.
inline constexpr std::size_t kResidentRows = 16;

/// Memory of an input made by only_logit_rows().
struct LogitRowsStorage {
  std::vector<SequenceSlice> sequences;
  std::vector<PageTableView> tables;
  std::vector<std::size_t> rows;
};

/// What is left of an input behind the keys and values of the last layer: there only rows whose
/// logits are wanted matter. They come to the front, in their order. Nothing if no row can be left
/// out or the rows are not in ascending order.
std::optional<ModelInput> only_logit_rows(const ModelInput& input, LogitRowsStorage& storage);

}  // namespace quire
