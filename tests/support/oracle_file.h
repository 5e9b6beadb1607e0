#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace quire::testing {

struct OracleLogit {
  TokenId id = 0;
  float value = 0;
};

/// The logits after reading tokens[0..position]: all of them, or a sample (the largest, and fixed
/// pseudo-random ids, so that a difference anywhere in the vocabulary shows).
struct OracleRow {
  std::uint32_t position = 0;
  float logsumexp = 0;  // over the whole vocabulary
  TokenId top = 0;      // the id with the largest logit
  float margin = 0;     // how far it is above the second
  std::vector<OracleLogit> logits;

  /// Largest absolute difference over the ids kept here; `logits` has the whole vocabulary. A
  /// value that is not a number makes it infinite.
  float max_difference(std::span<const float> row) const;
  /// False if another id leads although the margin is above `tolerance`.
  bool top_agrees(std::span<const float> row, float tolerance) const;
};

struct OracleText {
  std::vector<TokenId> tokens;
  std::vector<OracleRow> rows;  // by rising position; not every position has one
};

/// Logits computed by transformers in float32, written by tests/oracle (the format is described in
/// common.py there).
struct OracleFile {
  std::uint32_t vocab_size = 0;
  std::vector<OracleText> texts;

  static Result<OracleFile> open(const std::filesystem::path& path);
};

}  // namespace quire::testing
