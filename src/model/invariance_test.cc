// The same tokens give the same bits, however they are chunked, paged, batched or threaded.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <limits>
#include <numeric>

#include "model/attention_plan.h"
#include "model/model_test_support.h"
#include "tests/support/oracle_file.h"

namespace quire {
namespace {

namespace fs = std::filesystem;
using testing::ModelRunner;
using testing::RunnerOptions;

std::vector<TokenId> tokens_of(const std::string& name) {
  const auto oracle =
      testing::OracleFile::open(fs::path(QUIRE_TEST_DATA) / "tiny" / (name + ".oracle"));
  if (!oracle) throw std::runtime_error(oracle.error().message);
  return oracle->texts.at(0).tokens;
}

std::string tiny(const std::string& name) {
  return (fs::path(QUIRE_TEST_DATA) / "tiny" / (name + ".gguf")).string();
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Long texts meet several attention splits; windows drop pages on the way; the quantized model
// takes the int8 path.
class Invariance : public ::testing::TestWithParam<std::tuple<const char*, KvType, Precision>> {};

TEST_P(Invariance, ChunksPagesAndThreadsChangeNoBit) {
  const auto [name, kv_type, precision] = GetParam();
  const std::vector<TokenId> tokens = tokens_of(name);
  RunnerOptions options{.precision = precision, .kv_type = kv_type};
  const std::vector<float> expected = ModelRunner(tiny(name), options).run(tokens, tokens.size());
  const auto expect_same = [&](std::size_t page_size, std::size_t n_threads,
                               std::initializer_list<std::size_t> chunks) {
    options.page_size = page_size;
    options.n_threads = n_threads;
    ModelRunner runner(tiny(name), options);
    for (const std::size_t chunk : chunks)
      EXPECT_TRUE(same_bits(runner.run(tokens, chunk), expected))
          << "page size " << page_size << ", threads " << n_threads << ", chunk " << chunk;
  };
  expect_same(16, 2, {1});
  for (const std::size_t page_size : {16, 32, 64, 128}) expect_same(page_size, 2, {7, 100, 513});
  for (const std::size_t n_threads : {1, 3, 5}) expect_same(16, n_threads, {16, 100});
  if (tokens.size() > 100) return;  // few rows on many threads, which take a way of their own
  for (const std::size_t n_threads : {2, 3, 8}) expect_same(16, n_threads, {1, 2, 3, 5});
}

INSTANTIATE_TEST_SUITE_P(
    Models, Invariance,
    ::testing::Values(std::tuple{"llama_long", KvType::kF32, Precision::kReference},
                      std::tuple{"llama_long", KvType::kF16, Precision::kFast},
                      std::tuple{"gemma3_long", KvType::kBF16, Precision::kFast},
                      std::tuple{"llama_window_long", KvType::kF16, Precision::kFast},
                      std::tuple{"llama_legacy_quants", KvType::kF16, Precision::kFast},
                      std::tuple{"llama_k_quants", KvType::kBF16, Precision::kFast}));

class Neighbours : public ::testing::TestWithParam<std::tuple<std::string, std::size_t>> {};

INSTANTIATE_TEST_SUITE_P(Invariance, Neighbours,
                         ::testing::Combine(::testing::Values("llama_legacy_quants",
                                                              "gemma3_pattern", "qwen2_gqa7"),
                                            ::testing::Values(2, 12)));

TEST_P(Neighbours, InTheBatchChangeNoBit) {
  const auto& [name, n_threads] = GetParam();
  const std::vector<TokenId> tokens = tokens_of(name);
  ModelRunner runner(tiny(name), {.precision = Precision::kFast, .n_threads = n_threads});
  const std::vector<float> alone = runner.run(tokens, tokens.size());
  const std::size_t row = runner.n_vocab();

  // The same text as three sequences at different paces, beside each other in every step.
  std::vector<SequenceId> sequences;
  for (int i = 0; i < 3; ++i) sequences.push_back(runner.kv().add_sequence());
  std::vector<std::size_t> done(3);
  while (done[0] < tokens.size()) {
    std::vector<ModelRunner::Part> parts;
    for (std::size_t s = 0; s < 3; ++s) {
      const std::size_t n = std::min(3 * s + 1, tokens.size() - done[s]);
      if (n == 0) continue;
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(done[s]);
      parts.push_back({sequences[s], {begin, begin + static_cast<std::ptrdiff_t>(n)}});
    }
    const std::vector<float> logits = runner.step(parts);
    std::size_t first = 0;
    for (const auto& part : parts) {
      const auto s = static_cast<std::size_t>(
          std::find(sequences.begin(), sequences.end(), part.sequence) - sequences.begin());
      ASSERT_EQ(0, std::memcmp(logits.data() + first * row, alone.data() + done[s] * row,
                               part.tokens.size() * row * sizeof(float)));
      done[s] += part.tokens.size();
      first += part.tokens.size();
    }
  }
}

using Rows = std::vector<std::size_t>;

Rows every_row(std::size_t n) {
  Rows rows(n);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  return rows;
}

// Behind the keys and values of the last layer only rows with logits are computed.
TEST_P(Neighbours, WantingFewerLogitsChangesNoBit) {
  const auto& [name, n_threads] = GetParam();
  const std::vector<TokenId> tokens = tokens_of(name);
  ModelRunner runner(tiny(name), {.precision = Precision::kFast, .n_threads = n_threads});
  const std::size_t row = runner.n_vocab();
  const auto parts = [&](std::size_t from, std::size_t to, const std::vector<SequenceId>& ids) {
    std::vector<ModelRunner::Part> out;
    for (const SequenceId id : ids)
      out.push_back({id,
                     {tokens.begin() + static_cast<std::ptrdiff_t>(from),
                      tokens.begin() + static_cast<std::ptrdiff_t>(to)}});
    return out;
  };
  const auto two = [&] {
    return std::vector{runner.kv().add_sequence(), runner.kv().add_sequence()};
  };
  const std::vector<SequenceId> all = two();
  const std::vector<float> first = runner.step(parts(0, 20, all));
  const std::vector<float> second = runner.step(parts(20, 40, all));
  for (const Rows& few :
       {Rows{}, Rows{39}, Rows{19, 39}, Rows{0, 1, 17, 20, 21, 30}, Rows{25, 3}}) {
    const std::vector<SequenceId> some = two();
    for (const auto& [expected, from] : {std::pair{&first, 0u}, std::pair{&second, 20u}}) {
      // What a step without logits left in the cache shows in the next one.
      const Rows wanted = few.empty() && from != 0 ? every_row(40) : few;
      const std::vector<float> logits = runner.step(parts(from, from + 20, some), wanted);
      ASSERT_EQ(logits.size(), wanted.size() * row);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_EQ(0,
                  std::memcmp(&logits[i * row], &(*expected)[wanted[i] * row], row * sizeof(float)))
            << "row " << wanted[i];
    }
  }
}

/// The input of a step just made, from the tables it left; of layers without a window these are
/// those it had.
struct StepInput {
  StepInput(ModelRunner& runner, const std::vector<ModelRunner::Part>& parts,
            std::vector<std::size_t> wanted)
      : rows(std::move(wanted)) {
    for (const auto& [sequence, part] : parts) {
      slices.push_back({tokens.size(), part.size(), runner.kv().length(sequence) - part.size()});
      tokens.insert(tokens.end(), part.begin(), part.end());
      for (std::size_t l = 0; l < runner.spec().layers.size(); ++l)
        tables.push_back(runner.kv().table(sequence, l));
    }
  }
  ModelInput view() const { return {tokens, slices, tables, rows}; }

  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<PageTableView> tables;
  std::vector<std::size_t> rows;
};

AttentionPlan plan_of(const ModelRunner& runner, const RunnerOptions& options,
                      const ModelInput& input, std::size_t index) {
  const LayerSpec& spec = runner.spec().layers[index];
  AttentionLayer layer{.layout = {},
                       .n_heads = spec.n_heads,
                       .window = spec.window,
                       .index = index,
                       .n_layers = runner.spec().layers.size()};
  layer.layout.n_kv_heads = static_cast<std::uint32_t>(spec.n_kv_heads);
  layer.layout.page_size = static_cast<std::uint32_t>(options.page_size);
  AttentionPlan plan;
  plan_attention(input, layer, options.n_threads, plan);
  return plan;
}

class LongTexts
    : public ::testing::TestWithParam<std::tuple<std::string, KvType, std::size_t, std::size_t>> {
 protected:
  RunnerOptions options() const {
    return {.precision = Precision::kFast,
            .kv_type = std::get<1>(GetParam()),
            .page_size = std::get<2>(GetParam()),
            .n_threads = std::get<3>(GetParam())};
  }
  ModelRunner runner_{tiny(std::get<0>(GetParam())), options()};
  std::vector<TokenId> tokens_ = tokens_of(std::get<0>(GetParam()));
  auto at(std::size_t i) const { return tokens_.begin() + static_cast<std::ptrdiff_t>(i); }
};

INSTANTIATE_TEST_SUITE_P(
    WithLogitsOfFewRows, LongTexts,
    ::testing::Combine(::testing::Values("llama_long", "llama_window_long", "gemma3_long"),
                       ::testing::Values(KvType::kF16, KvType::kBF16), ::testing::Values(16, 128),
                       ::testing::Values(1, 2, 12)));

// Rows on both sides of the borders of attention splits, in the last layer without the others.
TEST_P(LongTexts, WantingFewerLogitsChangesNoBit) {
  constexpr std::size_t kFirst = 530;  // tokens of each text in the first step
  constexpr std::size_t kSecond = 510;
  ASSERT_GE(tokens_.size(), kFirst + kSecond + 50);
  const auto parts = [&](std::size_t from, std::size_t to, const std::vector<SequenceId>& ids) {
    return std::vector<ModelRunner::Part>{{ids[0], {at(from), at(to)}},
                                          {ids[1], {at(from + 50), at(to + 50)}}};
  };
  const auto two = [&] {
    return std::vector{runner_.kv().add_sequence(), runner_.kv().add_sequence()};
  };
  const std::vector<SequenceId> all = two();
  const std::vector<float> first = runner_.step(parts(0, kFirst, all));
  const std::vector<float> second = runner_.step(parts(kFirst, kFirst + kSecond, all));
  const std::size_t row = runner_.n_vocab();
  // In the second step the texts' rows begin at 0 and 510; row 493 is position 1023.
  for (const Rows& few : {Rows{}, Rows{509}, Rows{0, 1, 3, 492, 493, 494, 1019},
                          Rows{508, 509, 510, 511, 700, 1003, 1004}}) {
    const std::vector<SequenceId> some = two();
    for (const auto& [expected, from, to] :
         {std::tuple{&first, std::size_t{0}, kFirst}, {&second, kFirst, kFirst + kSecond}}) {
      const Rows wanted = few.empty() && from != 0 ? every_row(2 * kSecond) : few;
      const auto step = parts(from, to, some);
      const std::vector<float> logits = runner_.step(step, wanted);
      ASSERT_EQ(logits.size(), wanted.size() * row);
      for (std::size_t i = 0; i < wanted.size(); ++i)
        EXPECT_EQ(0,
                  std::memcmp(&logits[i * row], &(*expected)[wanted[i] * row], row * sizeof(float)))
            << "row " << wanted[i] << " from " << from;
      if (few.empty() || from == 0) continue;
      // Few rows were left, and they see more than one split.
      const StepInput input(runner_, step, wanted);
      LogitRowsStorage storage;
      const auto narrowed = only_logit_rows(input.view(), storage);
      ASSERT_TRUE(narrowed.has_value());
      const AttentionPlan plan =
          plan_of(runner_, options(), *narrowed, runner_.spec().layers.size() - 1);
      std::size_t n_queries = 0;
      for (const AttentionTile& tile : plan.tiles) {
        n_queries += tile.n_queries;
        EXPECT_GT(tile.n_splits, 1u);
      }
      EXPECT_EQ(n_queries, wanted.size());
    }
    for (const SequenceId id : some) runner_.kv().release(id);
  }
}

class ForksThatShare : public LongTexts {};

INSTANTIATE_TEST_SUITE_P(Invariance, ForksThatShare,
                         ::testing::Combine(::testing::Values("llama_long"),
                                            ::testing::Values(KvType::kF16, KvType::kBF16),
                                            ::testing::Values(16, 128),
                                            ::testing::Values(1, 2, 5)));

// Four answers to one prompt, and one that parts from them early, share its pages: step by step
// they get what each would get alone.
TEST_P(ForksThatShare, ALongPromptChangeNoBit) {
  constexpr std::size_t kPrompt = 650;
  ASSERT_GT(tokens_.size(), kPrompt + 20);
  // Answer i continues the prompt with tokens of its own.
  const auto answer = [&](std::size_t i, std::size_t step) {
    return TokenId{static_cast<int>((17 * i + 5 * step) % runner_.n_vocab())};
  };
  using Tile = std::pair<std::size_t, std::size_t>;  // queries, positions walked together
  const std::size_t alone_end = std::numeric_limits<std::size_t>::max();
  const std::tuple<std::size_t, std::vector<Tile>> cases[] = {
      // 256 positions in common would make the walk of the others, over 640, too short.
      {300, {{4, 640}, {1, alone_end}}},
      {400, {{5, 384}}}};
  for (const auto& [parting, tiles] : cases) {
    std::vector<std::vector<float>> expected;
    for (std::size_t i = 0; i < 5; ++i) {
      const SequenceId alone = runner_.kv().add_sequence();
      runner_.step({{alone, {at(0), at(i == 4 ? parting : kPrompt)}}});
      for (std::size_t step = 0; step < 3; ++step)
        expected.push_back(runner_.step({{alone, {answer(i, step)}}}));
      runner_.kv().release(alone);
    }
    const SequenceId parent = runner_.kv().add_sequence();
    runner_.step({{parent, {at(0), at(parting)}}});
    const SequenceId early = *runner_.kv().fork(parent);
    runner_.step({{parent, {at(parting), at(kPrompt)}}});
    std::vector<SequenceId> forks = {parent};
    for (int i = 1; i < 4; ++i) forks.push_back(*runner_.kv().fork(parent));
    forks.push_back(early);
    for (std::size_t step = 0; step < 3; ++step) {
      std::vector<ModelRunner::Part> parts;
      for (std::size_t i = 0; i < 5; ++i) parts.push_back({forks[i], {answer(i, step)}});
      const std::vector<float> logits = runner_.step(parts);
      for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(0, std::memcmp(&logits[i * runner_.n_vocab()], expected[3 * i + step].data(),
                                 runner_.n_vocab() * sizeof(float)))
            << "answer " << i << ", step " << step << ", parting at " << parting;
      const StepInput input(runner_, parts, {0, 1, 2, 3, 4});
      for (std::size_t layer = 0; layer < runner_.spec().layers.size(); ++layer) {
        const AttentionPlan plan = plan_of(runner_, options(), input.view(), layer);
        std::vector<Tile> planned;
        for (const AttentionTile& tile : plan.tiles)
          planned.emplace_back(tile.n_queries, tile.shared_end);
        EXPECT_EQ(planned, tiles) << "layer " << layer;
        EXPECT_EQ(plan.share_splits, options().n_threads > 1);
      }
    }
    for (const SequenceId id : forks) runner_.kv().release(id);
  }
}

TEST(Invariance, ForkAndTruncateContinueAsIfAlone) {
  const std::string name = "gemma3_long";
  std::vector<TokenId> tokens = tokens_of(name);
  tokens.resize(90);
  ModelRunner runner(tiny(name), {.kv_type = KvType::kF16});
  const std::vector<float> alone = runner.run(tokens, tokens.size());
  const std::size_t row = runner.n_vocab();
  const auto part = [&](SequenceId s, std::size_t begin, std::size_t end) {
    const auto at = [&](std::size_t i) { return tokens.begin() + static_cast<std::ptrdiff_t>(i); };
    return ModelRunner::Part{s, {at(begin), at(end)}};
  };
  const SequenceId parent = runner.kv().add_sequence();
  runner.step({part(parent, 0, 41)});
  const auto child = runner.kv().fork(parent);
  ASSERT_TRUE(child.has_value());
  // The parent goes another way over the shared hot page; the child must not notice.
  runner.step({{parent, {5, 6, 7}}});
  const std::vector<float> continued = runner.step({part(*child, 41, 90)});
  EXPECT_EQ(0, std::memcmp(continued.data(), alone.data() + 41 * row, 49 * row * sizeof(float)));
  // The parent takes its three tokens back and follows.
  ASSERT_TRUE(runner.kv().truncate(parent, 41).has_value());
  const std::vector<float> again = runner.step({part(parent, 41, 90)});
  EXPECT_EQ(0, std::memcmp(again.data(), alone.data() + 41 * row, 49 * row * sizeof(float)));
}

}  // namespace
}  // namespace quire
