#pragma once
// A model with its own cache and pool, for tests of the forward pass.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kv/kv_manager.h"
#include "model/model.h"

namespace quire::testing {

struct RunnerOptions {
  Precision precision = Precision::kReference;
  KvType kv_type = KvType::kF32;
  std::size_t page_size = 16;
  std::size_t n_threads = 1;
  std::uint64_t kv_budget = std::uint64_t{256} << 20;
};

class ModelRunner {
 public:
  /// Fails the test if the file does not load.
  ModelRunner(const std::string& path, RunnerOptions options) : pool_(options.n_threads) {
    auto file = GgufFile::open(path);
    if (!file) throw std::runtime_error(file.error().message);
    file_.emplace(std::move(*file));
    auto spec = read_model_spec(*file_);
    if (!spec) throw std::runtime_error(spec.error().message);
    auto kv =
        KvManager::create(spec->kv_config(options.kv_type, options.page_size, options.kv_budget));
    if (!kv) throw std::runtime_error(kv.error().message);
    kv_.emplace(std::move(*kv));
    KvLayout types;
    types.k_type = options.kv_type;
    types.v_type = options.kv_type;
    types.page_size = static_cast<std::uint32_t>(options.page_size);
    auto model = Model::load(*file_, std::move(*spec), types, options.precision, pool_, {});
    if (!model) throw std::runtime_error(model.error().message);
    model_.emplace(std::move(*model));
  }

  struct Part {
    SequenceId sequence;
    std::vector<TokenId> tokens;
  };

  /// One step; logits of the rows `wanted`, or of every token, [rows, n_vocab].
  std::vector<float> step(const std::vector<Part>& parts,
                          const std::optional<std::vector<std::size_t>>& wanted = {}) {
    std::vector<SlotRequest> slots;
    std::vector<TokenId> tokens;
    std::vector<SequenceSlice> slices;
    std::vector<std::size_t> rows;
    for (const Part& part : parts) {
      slots.push_back({part.sequence, part.tokens});
      slices.push_back({tokens.size(), part.tokens.size(), kv_->length(part.sequence)});
      tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) rows.push_back(i);
    if (wanted) rows = *wanted;
    auto reservation = kv_->reserve(slots);
    if (!reservation) throw std::runtime_error(reservation.error().message);
    std::vector<PageTableView> tables;
    for (const Part& part : parts)
      for (std::size_t l = 0; l < model_->spec().layers.size(); ++l)
        tables.push_back(kv_->table(part.sequence, l));
    std::vector<float> logits(rows.size() * n_vocab());
    const Status status = model_->forward({tokens, slices, tables, rows}, pool_, logits.data());
    if (!status) throw std::runtime_error(status.error().message);
    reservation->commit();
    const Status valid = kv_->validate();
    EXPECT_TRUE(valid.has_value()) << (valid ? "" : valid.error().message);
    return logits;
  }

  /// Logits of every token of a fresh sequence fed in chunks; the last chunk may be shorter.
  std::vector<float> run(const std::vector<TokenId>& tokens, std::size_t chunk) {
    const SequenceId sequence = kv_->add_sequence();
    std::vector<float> logits;
    for (std::size_t i = 0; i < tokens.size(); i += chunk) {
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i);
      const auto n = std::min(chunk, tokens.size() - i);
      const auto part = step({{sequence, {begin, begin + static_cast<std::ptrdiff_t>(n)}}});
      logits.insert(logits.end(), part.begin(), part.end());
    }
    kv_->release(sequence);
    return logits;
  }

  std::size_t n_vocab() const { return model_->spec().n_vocab; }
  const ModelSpec& spec() const { return model_->spec(); }
  KvManager& kv() { return *kv_; }

 private:
  ThreadPool pool_;
  std::optional<GgufFile> file_;
  std::optional<KvManager> kv_;
  std::optional<Model> model_;
};

}  // namespace quire::testing
