#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/packed_matrix.h"
#include "kv/kv_manager.h"
#include "model/model_spec.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire {

struct ModelWeights;

struct EngineOptions {
  std::filesystem::path model;
  Precision precision = Precision::kFast;
  KvType kv_type = KvType::kF16;
  std::size_t page_size = 16;
  std::uint64_t kv_memory = 0;  // bytes; 0: room for kv_sequences of `context` tokens each
  std::size_t kv_sequences = 1;
  std::size_t n_threads = 0;        // 0: every CPU this process may use
  std::size_t context = 0;          // tokens a sequence may hold; 0: what the model was trained for
  std::size_t prefill_chunk = 256;  // tokens of one forward pass at most
  bool needs_chat_template = false;  // one that cannot be parsed is refused before weights are read
};

/// Called with the fraction done, 0 to 1, while weights are packed.
using ProgressFn = std::function<void(double)>;

/// Which rows of logits a step should compute.
enum class LogitsWanted : std::uint8_t { kNone, kLast, kAll };

/// The next tokens of one sequence in one step.
struct StepItem {
  SequenceId sequence;
  std::span<const TokenId> tokens;
  LogitsWanted logits = LogitsWanted::kLast;
};

/// Logits [n_rows, vocab_size] in the order of the items and their tokens; valid until the next
/// step.
struct StepLogits {
  std::span<const float> values;
  std::size_t n_rows = 0;
  std::size_t vocab_size = 0;
  std::span<const float> row(std::size_t i) const {
    return values.subspan(i * vocab_size, vocab_size);
  }
};

/// Called between the forward pass and the commit of a step: kept[i] tokens of item i, which come
/// as all of them, become part of its sequence. The others were computed in vain.
using AcceptFn = std::function<void(const StepLogits& logits, std::span<std::size_t> kept)>;

/// A loaded model with its KV cache. One thread drives it; the forward pass uses the pool's.
class Engine {
 public:
  static Result<std::unique_ptr<Engine>> load(const EngineOptions& options,
                                              const ProgressFn& progress = {});
  virtual ~Engine() = default;

  virtual const EngineOptions& options() const = 0;  // with every default filled in
  virtual const ModelSpec& spec() const = 0;
  virtual const ModelWeights& weights() const = 0;  // as packed
  virtual const Tokenizer& tokenizer() const = 0;
  /// Null if the model carries none; the error says why if it carries one that does not parse.
  virtual const Result<std::optional<ChatTemplate>>& chat_template() const = 0;
  virtual const KvManager& kv() const = 0;

  virtual SequenceId add_sequence() = 0;
  /// One that shares cached prefixes with the others of its namespace; see KvManager.
  virtual SequenceId add_sequence(std::string_view prefix_namespace) = 0;
  virtual std::size_t adopt_prefix(SequenceId empty, std::span<const TokenId> tokens,
                                   std::size_t max_tokens) = 0;
  virtual Result<PrefixPin> pin_prefix(std::string_view prefix_namespace,
                                       std::span<const TokenId> tokens) = 0;
  virtual Status unpin(PinId pin) = 0;
  virtual std::size_t flush_cache() = 0;
  virtual Result<SequenceId> fork(SequenceId parent) = 0;
  virtual Status truncate(SequenceId sequence, std::size_t length) = 0;
  virtual void release(SequenceId sequence) = 0;

  /// One forward pass as a transaction: pages are reserved, the pass runs, the pages are
  /// committed. On failure nothing has changed. Token ids out of range, a sequence over the
  /// context limit and a full cache are refused, the latter two naming both numbers. Keys or values
  /// that overflow in one sequence fail the step for all of them; the message says in which.
  Result<StepLogits> step(std::span<const StepItem> items) { return step(items, {}); }

  /// The same, where `accept` (optional) decides how many tokens of each item are kept, having seen
  /// their logits. On failure it is not called.
  virtual Result<StepLogits> step(std::span<const StepItem> items, const AcceptFn& accept) = 0;

  /// The same for one sequence, with what the LM head would read of each token instead of logits:
  /// [n_tokens, hidden_dim], valid until the next step.
  virtual Result<std::span<const float>> hidden_step(SequenceId sequence,
                                                     std::span<const TokenId> tokens) = 0;

  /// Steps of at most prefill_chunk tokens; returns the logits of the last token. On failure the
  /// sequence is as long as before, or empty if window layers can no longer show that. `tokens`
  /// must not be empty. `keep_going` (optional) is asked before each chunk; false stops with an
  /// empty StepLogits and the chunks done so far kept.
  virtual Result<StepLogits> prefill(SequenceId sequence, std::span<const TokenId> tokens,
                                     const std::function<bool(std::size_t done)>& keep_going) = 0;
};

}  // namespace quire
