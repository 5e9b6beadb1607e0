#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "engine/engine.h"
#include "text/tokenizer.h"

namespace quire {

/// Loads with a progress bar and says what a person should know about the choice of options.
Result<std::unique_ptr<Engine>> load_engine(const EngineOptions& options);

/// Only the tokenizer: no weights are touched.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& model);

}  // namespace quire
