// The same on real models: a prompt that the answer copies from, one that it does not.

#include <gtest/gtest.h>

#include "engine/prompt.h"
#include "engine/prompt_lookup.h"
#include "engine/speculation_testing.h"

namespace quire {
namespace {

using testing::ask;
using testing::expect_same;
using testing::Seen;

constexpr const char* kCode = R"(Rewrite this function with the variable total renamed to sum:

def average(values):
    total = 0
    count = 0
    for value in values:
        if value is None:
            continue
        total = total + value
        count = count + 1
    if count == 0:
        return None
    return total / count
)";

/// Answers with and without guesses, greedily and with seeds; gives how many guesses were right.
std::size_t accepted_of(const char* name, KvType kv_type) {
  EngineOptions options;
  options.model = std::string(QUIRE_MODELS "/") + name;
  options.n_threads = 2;
  options.context = 1024;
  options.kv_type = kv_type;
  const auto engine = testing::load(options);
  std::size_t accepted = 0;
  for (const char* text : {kCode, "Tell me of a walk by the sea."})
    for (const float temperature : {0.0f, 0.7f}) {
      GenerateRequest request;
      const auto& chat = engine->chat_template();
      if (chat && chat->has_value()) {
        const std::vector<ChatMessage> messages = {{"user", text}};
        request.prompt = encode_chat(engine->tokenizer(), **chat, messages, true).value();
      } else {
        request.prompt = encode_plain(engine->tokenizer(), text, ParseSpecial::kNo).value();
      }
      request.max_tokens = 64;
      request.sampling.temperature = temperature;
      request.sampling.seed = 11;
      request.sampling.logprobs = true;
      request.sampling.n_logprobs = 2;
      Session session(*engine);
      const Seen expected = ask(session, request);
      PromptLookup lookup({.row_cost = 0.1, .learns_cost = false});
      request.drafter = &lookup;
      const Seen seen = ask(session, request);
      expect_same(seen, expected);
      accepted += seen.result.speculation->accepted;
    }
  return accepted;
}

TEST(SpeculationOnModels, SmolLm2AnswersTheSame) {
  for (const KvType type : {KvType::kF16, KvType::kBF16})
    EXPECT_GT(accepted_of("SmolLM2-135M-Instruct.Q4_1.gguf", type), 10u);
}

TEST(SpeculationOnModels, Gemma3AnswersTheSame) {
  EXPECT_GT(accepted_of("gemma-3-270m.Q4_K_M.gguf", KvType::kBF16), 10u);
}

}  // namespace
}  // namespace quire
