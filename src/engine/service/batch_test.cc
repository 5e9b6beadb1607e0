// What needs a certain order of steps; service_test.cc has the rest.

#include "engine/service/batch.h"

#include <gtest/gtest.h>

#include <optional>

#include "engine/service/service_testing.h"

namespace quire {
namespace {

using ::quire::testing::asking;
using ::quire::testing::CollectingSink;
using ::quire::testing::load;
using ::quire::testing::tagged_tokens;
using ::quire::testing::tiny_options;

constexpr const char* kTinyLlama = "llama_gqa4_d100";

/// 160 tokens fit; the text alone has 150, the answer 140 in the end.
class BatchWithEmbedding : public ::testing::Test {
 protected:
  BatchWithEmbedding() {
    options_ = tiny_options(kTinyLlama);
    options_.kv_memory = kv_bytes_for(load(options_)->kv().config(), 160);
    options_.context = 512;
    engine_ = load(options_);
    batch_.emplace(*engine_, ServiceOptions{.planner = {.step_tokens = 16}});
  }

  void add_text(std::size_t n_tokens) {
    batch_->add(EmbeddingRequest{
        tagged_tokens(n_tokens, 1), Pooling::kMean, nullptr,
        [this](Result<std::vector<float>> result) { vector_.emplace(std::move(result)); }});
  }
  std::shared_ptr<CollectingSink> add_answer() {
    auto sink = std::make_shared<CollectingSink>();
    ++batch_->queued();
    auto request = std::make_unique<ActiveRequest>();
    request->id = RequestId{next_id_++};
    request->request = asking(tagged_tokens(100, 7), 40);
    request->sink = sink;
    batch_->add(std::move(request));
    return sink;
  }
  void run() {
    for (std::size_t step = 0; !batch_->idle(); ++step) {
      ASSERT_LT(step, 2000u) << "nothing moves";
      batch_->step();
    }
  }

  EngineOptions options_;
  std::unique_ptr<Engine> engine_;
  std::optional<Batch> batch_;
  std::optional<Result<std::vector<float>>> vector_;
  std::uint64_t next_id_ = 1;
};

TEST_F(BatchWithEmbedding, BothEndWhicheverCameFirst) {
  for (std::size_t head_start = 0; head_start <= 24; ++head_start) {
    for (const bool answer_first : {false, true}) {
      vector_.reset();
      std::shared_ptr<CollectingSink> sink;
      if (answer_first)
        sink = add_answer();
      else
        add_text(150);
      for (std::size_t i = 0; i < head_start && !batch_->idle(); ++i) batch_->step();
      if (answer_first)
        add_text(150);
      else
        sink = add_answer();
      run();
      ASSERT_TRUE(vector_.has_value());
      EXPECT_TRUE(*vector_) << head_start << answer_first << ": " << vector_->error().message;
      EXPECT_TRUE(sink->ended());
      EXPECT_FALSE(sink->error()) << head_start << answer_first << ": " << sink->error()->message;
    }
  }
}

TEST_F(BatchWithEmbedding, ATextThatCanNeverFitEndsWithAnError) {
  for (const bool beside_an_answer : {false, true}) {
    vector_.reset();
    add_text(300);
    std::shared_ptr<CollectingSink> sink;
    if (beside_an_answer) sink = add_answer();
    run();
    ASSERT_TRUE(vector_.has_value());
    ASSERT_FALSE(*vector_);
    EXPECT_EQ(vector_->error().code, ErrorCode::kOutOfMemory);
    if (sink) {
      EXPECT_FALSE(sink->error()) << sink->error()->message;
    }
  }
}

}  // namespace
}  // namespace quire
