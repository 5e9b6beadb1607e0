#pragma once
// Responses that need no generation.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "serve/openai/prepare.h"

namespace quire::openai {

/// /v1/models: every name of the model.
std::string models_json(const ServedModel& model);
/// /v1/models/{name}.
ApiResult<std::string> model_json(const std::string& name, const ServedModel& model);

/// /v1/embeddings: one vector for each input, as numbers or as base64 of little-endian floats.
std::string embeddings_json(std::span<const std::vector<float>> vectors, bool base64,
                            std::size_t n_tokens, const ServedModel& model);

}  // namespace quire::openai
