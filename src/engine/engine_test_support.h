#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"

namespace quire::testing {

/// Engine options for one of tests/data/tiny.
inline EngineOptions tiny_options(const std::string& name) {
  EngineOptions options;
  options.model = std::string(QUIRE_TEST_DATA "/tiny/") + name + ".gguf";
  options.n_threads = 2;
  options.kv_memory = std::uint64_t{64} << 20;
  return options;
}

inline std::unique_ptr<Engine> load(const EngineOptions& options) {
  auto engine = Engine::load(options);
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    std::abort();
  }
  return std::move(*engine);
}

/// n token ids that no test minds: 3, 4, 5, …, all within a tiny vocabulary.
inline std::vector<TokenId> some_tokens(std::size_t n) {
  std::vector<TokenId> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<TokenId>(3 + i * 7 % 200);
  return out;
}

}  // namespace quire::testing
