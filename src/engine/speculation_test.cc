// An answer with guesses is the answer without, to the bit: whatever the guesses, whatever ends it.

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "base/temp_folder_testing.h"
#include "engine/prompt_lookup.h"
#include "engine/speculation_testing.h"
#include "model/gguf.h"
#include "sample/stop_matcher.h"

namespace quire {
namespace {

using testing::ask;
using testing::expect_same;
using testing::greedy;
using testing::ids;
using testing::KnowingDrafter;
using testing::load;
using testing::Seen;
using testing::some_tokens;

/// Tests that compare hundreds of answers; threads change nothing but the time.
EngineOptions tiny_options(const char* model) {
  EngineOptions options = testing::tiny_options(model);
  options.n_threads = 1;
  return options;
}

GenerateRequest with(GenerateRequest request, Drafter& drafter, std::size_t max_draft = 16) {
  request.drafter = &drafter;
  request.max_draft = max_draft;
  return request;
}

/// Asks with drafters that know the answer more or less well, and with a real one. Gives the
/// answer.
Seen expect_guesses_change_nothing(Engine& engine, const GenerateRequest& request,
                                   std::size_t cancel_after = 0) {
  Session plain(engine);
  const Seen expected = ask(plain, request, cancel_after);
  // What would follow if nothing ended it, so that guesses go on behind the end.
  GenerateRequest longer = request;
  longer.max_tokens = 0;
  longer.stop.clear();
  longer.ignore_eos = true;
  if (request.max_tokens != 0) longer.max_tokens = request.max_tokens + 20;
  Session other(engine);
  const std::vector<TokenId> answer = ids(ask(other, longer).result);
  for (const std::size_t length : {1, 2, 7, 24})
    for (const std::uint32_t wrong : {0, 25, 100}) {
      KnowingDrafter drafter(answer, length, wrong);
      Session session(engine);
      const Seen seen = ask(session, with(request, drafter, 24), cancel_after);
      expect_same(seen, expected);
      const SpeculationCounts& counts = seen.result.speculation.value();
      EXPECT_LE(counts.accepted, counts.drafted);
      if (wrong == 0 && expected.result.tokens.size() > 2) {
        EXPECT_GT(counts.accepted, 0u);
      }
      EXPECT_TRUE(engine.kv().validate());
      if (::testing::Test::HasFailure()) return expected;
    }
  PromptLookup lookup({.row_cost = 0.01, .learns_cost = false});
  Session session(engine);
  expect_same(ask(session, with(request, lookup), cancel_after), expected);
  // The cache is what it should be: the same again, from it.
  expect_same(ask(session, with(request, lookup), cancel_after), ask(plain, request, cancel_after));
  return expected;
}

TEST(Speculation, ChangesNothingOfGreedyAnswers) {
  for (const char* model : {"llama_mha_d64", "gemma3_pattern", "llama_legacy_quants", "qwen3_gqa2"})
    for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16})
      for (const std::size_t page_size : {16, 64}) {
        SCOPED_TRACE(model);
        EngineOptions options = tiny_options(model);
        options.kv_type = type;
        options.page_size = page_size;
        const auto engine = load(options);
        GenerateRequest request = greedy(some_tokens(27), 60);
        request.sampling.logprobs = true;
        request.sampling.n_logprobs = 3;
        expect_guesses_change_nothing(*engine, request);
      }
}

TEST(Speculation, DrawsTheSameRandomNumbers) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    GenerateRequest request = greedy(some_tokens(20), 40);
    request.sampling.seed = seed;
    request.sampling.temperature = 0.3f * static_cast<float>(1 + seed % 4);
    request.sampling.top_k = seed % 2 == 0 ? 0 : 20;
    request.sampling.repeat_penalty = seed % 3 == 0 ? 1.3f : 1.0f;
    request.sampling.presence_penalty = seed % 5 == 0 ? 0.7f : 0.0f;
    request.sampling.frequency_penalty = seed % 4 == 0 ? -0.8f : 0.0f;
    request.sampling.logprobs = seed % 2 == 0;
    request.ignore_eos = seed % 2 == 0;
    expect_guesses_change_nothing(*engine, request);
  }
}

TEST(Speculation, EndsWhereTheAnswerEnds) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  const Seen whole = expect_guesses_change_nothing(*engine, greedy(some_tokens(12), 40));
  for (std::size_t n = 1; n <= 12; ++n)
    expect_guesses_change_nothing(*engine, greedy(some_tokens(12), n));
  // Pieces of the text, most of them over several tokens.
  const std::string& text = whole.result.text;
  std::size_t stopped = 0;
  for (std::size_t begin = 0; begin < text.size(); begin += 3)
    for (const std::size_t length : {2, 7}) {
      GenerateRequest request = greedy(some_tokens(12), 40);
      request.stop = {text.substr(begin, length), "never in it"};
      if (!StopMatcher::create(request.stop)) continue;  // cut inside a character
      const Seen seen = expect_guesses_change_nothing(*engine, request);
      stopped += seen.result.finish_reason == FinishReason::kStop;
    }
  EXPECT_GT(stopped, 3u);
  for (const std::size_t pieces : {1, 2, 9}) {
    const Seen seen = expect_guesses_change_nothing(*engine, greedy(some_tokens(12), 40), pieces);
    EXPECT_EQ(seen.result.finish_reason, FinishReason::kCancelled);
  }
}

// The end-of-generation token is drawn here and there, and guessed with the others.
TEST(Speculation, EndsAtAGuessedEndOfGeneration) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  std::size_t ended = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    GenerateRequest request = greedy(some_tokens(12), 40);
    request.sampling.seed = seed;
    request.sampling.temperature = 1.5f;
    request.sampling.top_k = 0;
    request.sampling.logit_bias = {{*engine->tokenizer().data().eos, 3.0f}};
    request.ignore_eos = false;
    const Seen seen = expect_guesses_change_nothing(*engine, request);
    ended += seen.result.finish_reason == FinishReason::kStop && seen.result.tokens.size() > 3;
  }
  EXPECT_GT(ended, 3u);
}

TEST(Speculation, FillsTheContextToTheLastToken) {
  for (std::size_t context = 41; context <= 60; ++context) {
    EngineOptions options = tiny_options("llama_mha_d64");
    options.context = context;
    const auto engine = load(options);
    const Seen seen = expect_guesses_change_nothing(*engine, greedy(some_tokens(40), 0));
    EXPECT_EQ(seen.result.tokens.size(), context - 40);
    EXPECT_EQ(seen.result.finish_reason, FinishReason::kLength);
  }
}

TEST(Speculation, UsesAllTheMemoryThatPlainStepsWould) {
  EngineOptions options = tiny_options("llama_mha_d64");
  const auto probe = load(options);
  options.kv_memory = 3 * probe->spec().layers.size() * probe->kv().stats().page_bytes;
  const auto engine = load(options);  // 48 tokens
  Session session(*engine);
  const GenerateRequest request = greedy(some_tokens(40), 30);
  const Seen expected = ask(session, request);
  EXPECT_EQ(expected.result.finish_reason, FinishReason::kError);
  EXPECT_EQ(expected.result.tokens.size(), 9u);
  for (const std::size_t length : {1, 3, 8, 24}) {
    KnowingDrafter drafter(ids(expected.result), length, 20);
    expect_same(ask(session, with(request, drafter, 24)), expected);
    EXPECT_TRUE(engine->kv().validate());
  }
}

TEST(Speculation, IsToldTheWholeText) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  Session session(*engine);
  const GenerateRequest request = greedy(some_tokens(20), 30);
  std::vector<TokenId> text = request.prompt;
  for (const TokenId token : ids(ask(session, request).result)) text.push_back(token);
  KnowingDrafter drafter({text.begin() + 20, text.end()}, 5, 30);
  for (int turn = 0; turn < 2; ++turn) {
    ask(session, with(request, drafter));
    EXPECT_EQ(drafter.text(), text);
  }
}

TEST(Speculation, CountsWhatItDid) {
  const auto engine = load(tiny_options("llama_mha_d64"));
  Session session(*engine);
  const GenerateRequest request = greedy(some_tokens(20), 31);
  const Seen plain = ask(session, request);
  EXPECT_FALSE(plain.result.speculation.has_value());
  KnowingDrafter right(ids(plain.result), 5, 0);
  const Seen all = ask(session, with(request, right));
  EXPECT_EQ(all.result.speculation->steps, 5u);  // the first token comes with the prompt
  EXPECT_EQ(all.result.speculation->drafted, 25u);
  EXPECT_EQ(all.result.speculation->accepted, 25u);
  const Seen few = ask(session, with(request, right, 2));
  EXPECT_EQ(few.result.speculation->steps, 10u);
  EXPECT_EQ(few.result.speculation->drafted, 20u);
  EXPECT_EQ(ask(session, with(request, right, 0)).result.speculation->steps, 0u);
}

/// A copy of llama_gqa7_d10 in which computing `token` overflows.
std::string with_overflowing_token(TokenId token, const testing::TempFolder& folder) {
  const std::string path = tiny_options("llama_gqa7_d10").model;
  std::ifstream in(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  const auto file = GgufFile::open(path);
  const GgufTensor* embedding = file->find_tensor("token_embd.weight");
  EXPECT_EQ(embedding->type, TensorType::kF32);
  const std::size_t row_bytes = embedding->ne[0] * sizeof(float);
  const std::string_view row(reinterpret_cast<const char*>(embedding->data.data()) +
                                 static_cast<std::size_t>(token) * row_bytes,
                             row_bytes);
  const std::vector<float> huge(embedding->ne[0], 1e25f);  // its squares are more than f32 holds
  std::memcpy(bytes.data() + bytes.find(row), huge.data(), row_bytes);
  const std::string copy = folder / "overflows.gguf";
  std::ofstream(copy, std::ios::binary) << bytes;
  return copy;
}

TEST(Speculation, SurvivesGuessesThatOverflow) {
  constexpr TokenId kBad = 99;
  const testing::TempFolder folder;
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    EngineOptions options = tiny_options("llama_gqa7_d10");
    options.model = with_overflowing_token(kBad, folder);
    options.kv_type = type;
    const auto engine = load(options);
    Session session(*engine);
    const std::vector<TokenId> bad = {5, kBad};
    EXPECT_FALSE(session.generate(greedy(bad, 1)).has_value());
    GenerateRequest request = greedy({5, 6, 7, 8, 9}, 50);
    request.sampling.logit_bias = {{kBad, -std::numeric_limits<float>::infinity()}};
    request.sampling.logprobs = true;
    const Seen expected = ask(session, request);
    EXPECT_EQ(expected.result.finish_reason, FinishReason::kLength);
    for (const std::uint32_t wrong : {20, 60, 100}) {
      KnowingDrafter drafter(ids(expected.result), 6, wrong, kBad);
      expect_same(ask(session, with(request, drafter)), expected);
    }
  }
}

}  // namespace
}  // namespace quire
