#pragma once
// What tests of sessions ask and read.

#include <cstddef>
#include <utility>
#include <vector>

#include "engine/engine_test_support.h"
#include "engine/session.h"

namespace quire::testing {

inline std::vector<TokenId> ids(const GenerateResult& result) {
  std::vector<TokenId> out;
  for (const SampledToken& t : result.tokens) out.push_back(t.token);
  return out;
}

inline GenerateRequest greedy(std::vector<TokenId> prompt, std::size_t n) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = n;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  return request;
}

}  // namespace quire::testing
