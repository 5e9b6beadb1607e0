#include "cli/load.h"

#include <cstddef>
#include <limits>
#include <utility>

#include "base/progress.h"
#include "cli/console.h"
#include "model/gguf.h"
#include "model/gguf_tokenizer.h"

namespace quire {

Result<std::unique_ptr<Engine>> load_engine(const EngineOptions& options) {
  Progress progress("loading");
  QUIRE_ASSIGN_OR_RETURN(
      auto engine, Engine::load(options, [&](double fraction) { progress.update(fraction); }));
  progress.finish();
  const std::size_t context = engine->options().context;
  const std::size_t trained = engine->spec().context_length;
  if (context > trained) {
    say("quire: a context of {} tokens is more than the {} the model was trained for: expect "
        "nonsense beyond\n",
        context, trained);
  }
  return engine;
}

Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& model) {
  QUIRE_ASSIGN_OR_RETURN(const auto file, GgufFile::open(model));
  QUIRE_ASSIGN_OR_RETURN(auto data,
                         usable_tokenizer_data(file, std::numeric_limits<std::size_t>::max()));
  return build_tokenizer(file, std::move(data));
}

}  // namespace quire
