#include "engine/engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/bytes.h"
#include "base/check.h"
#include "engine/available_memory.h"
#include "engine/engine_options.h"
#include "kernels/kernels.h"
#include "kv/kv_arithmetic.h"
#include "model/gguf.h"
#include "model/gguf_tokenizer.h"
#include "model/model.h"

namespace quire {
namespace {

/// Bytes of logits one step may return: 2,048 rows of a vocabulary of 262,144 tokens.
constexpr std::uint64_t kMaxLogitBytes = std::uint64_t{2} << 30;

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

std::string special_text(const TokenizerData& data, std::optional<TokenId> id) {
  return id ? data.tokens[static_cast<std::size_t>(*id)] : std::string();
}

Result<std::optional<ChatTemplate>> load_chat_template(const GgufFile& file,
                                                       const TokenizerData& data) {
  QUIRE_ASSIGN_OR_RETURN(const auto source, file.optional_string(kTemplateKey));
  if (!source) return std::optional<ChatTemplate>();
  auto parsed =
      ChatTemplate::parse(*source, special_text(data, data.bos), special_text(data, data.eos));
  if (!parsed) return file.refuse(kTemplateKey, parsed.error().message);
  return std::optional<ChatTemplate>(std::move(*parsed));
}

/// What one step asks of the layers below, flat.
struct StepInputs {
  std::vector<SlotRequest> slots;
  std::vector<TokenId> tokens;
  std::vector<SequenceSlice> slices;
  std::vector<std::size_t> logit_rows;
};

class EngineImpl final : public Engine {
 public:
  EngineImpl(EngineOptions options, GgufFile file, std::unique_ptr<Tokenizer> tokenizer,
             Result<std::optional<ChatTemplate>> chat_template, std::unique_ptr<ThreadPool> pool,
             Model model, KvManager kv)
      : options_(std::move(options)),
        file_(std::move(file)),
        tokenizer_(std::move(tokenizer)),
        chat_template_(std::move(chat_template)),
        pool_(std::move(pool)),
        model_(std::move(model)),
        kv_(std::move(kv)) {
    file_.forget_metadata();
  }

  const EngineOptions& options() const override { return options_; }
  const ModelSpec& spec() const override { return model_.spec(); }
  const ModelWeights& weights() const override { return model_.weights(); }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const Result<std::optional<ChatTemplate>>& chat_template() const override {
    return chat_template_;
  }
  const KvManager& kv() const override { return kv_; }

  SequenceId add_sequence() override { return kv_.add_sequence(); }
  SequenceId add_sequence(std::string_view prefix_namespace) override {
    return kv_.add_sequence(prefix_namespace);
  }
  std::size_t adopt_prefix(SequenceId empty, std::span<const TokenId> tokens,
                           std::size_t max_tokens) override {
    return kv_.adopt_prefix(empty, tokens, max_tokens);
  }
  Result<PrefixPin> pin_prefix(std::string_view prefix_namespace,
                               std::span<const TokenId> tokens) override {
    return kv_.pin_prefix(prefix_namespace, tokens);
  }
  Status unpin(PinId pin) override { return kv_.unpin(pin); }
  std::size_t flush_cache() override { return kv_.flush_cache(); }
  Result<SequenceId> fork(SequenceId parent) override { return kv_.fork(parent); }
  Status truncate(SequenceId sequence, std::size_t length) override {
    return kv_.truncate(sequence, length);
  }
  void release(SequenceId sequence) override { kv_.release(sequence); }

  using Engine::step;
  Result<StepLogits> step(std::span<const StepItem> items, const AcceptFn& accept) override {
    QUIRE_ASSIGN_OR_RETURN(const StepInputs inputs, make_inputs(items));
    const std::size_t n_vocab = spec().n_vocab;
    const std::uint64_t logit_bytes = inputs.logit_rows.size() * n_vocab * sizeof(float);
    if (logit_bytes > kMaxLogitBytes)
      return fail(ErrorCode::kInvalidArgument, "the logits of {} tokens take {}, at most {} fit",
                  inputs.logit_rows.size(), format_byte_size(logit_bytes),
                  format_byte_size(kMaxLogitBytes));
    QUIRE_ASSIGN_OR_RETURN(Reservation reservation, kv_.reserve(inputs.slots));
    const std::size_t n_values = inputs.logit_rows.size() * n_vocab;
    float* logits = logits_.resize(n_values);
    QUIRE_RETURN_IF_ERROR(forward(items, inputs, ModelOutput::kLogits, logits));
    const StepLogits result{
        .values = {logits, n_values}, .n_rows = inputs.logit_rows.size(), .vocab_size = n_vocab};
    std::vector<std::size_t> kept;
    kept.reserve(items.size());
    for (const StepItem& item : items) kept.push_back(item.tokens.size());
    if (accept) accept(result, kept);
    reservation.commit(kept);
    return result;
  }

  Result<std::span<const float>> hidden_step(SequenceId sequence,
                                             std::span<const TokenId> tokens) override {
    const StepItem item{.sequence = sequence, .tokens = tokens, .logits = LogitsWanted::kAll};
    QUIRE_ASSIGN_OR_RETURN(const StepInputs inputs, make_inputs(std::span(&item, 1)));
    QUIRE_ASSIGN_OR_RETURN(Reservation reservation, kv_.reserve(inputs.slots));
    const std::size_t n_values = tokens.size() * spec().hidden_dim;
    float* hidden = logits_.resize(n_values);
    QUIRE_RETURN_IF_ERROR(forward(std::span(&item, 1), inputs, ModelOutput::kHidden, hidden));
    reservation.commit();
    return std::span<const float>(hidden, n_values);
  }

  Result<StepLogits> prefill(SequenceId sequence, std::span<const TokenId> tokens,
                             const std::function<bool(std::size_t)>& keep_going) override {
    if (tokens.empty()) return fail(ErrorCode::kInvalidArgument, "there is nothing to prefill");
    const std::size_t before = kv_.length(sequence);
    // Refused as a whole before anything is computed, since half a prompt is of no use.
    QUIRE_RETURN_IF_ERROR(check_context(before, tokens.size()));
    QUIRE_RETURN_IF_ERROR(check_fits(before + tokens.size()));
    StepLogits logits;
    for (std::size_t done = 0; done < tokens.size();) {
      if (keep_going && !keep_going(done)) return StepLogits();
      const std::size_t n = std::min(options_.prefill_chunk, tokens.size() - done);
      const bool last = done + n == tokens.size();
      const StepItem item{.sequence = sequence,
                          .tokens = tokens.subspan(done, n),
                          .logits = last ? LogitsWanted::kLast : LogitsWanted::kNone};
      auto result = step(std::span(&item, 1));
      if (!result) {
        // A window layer may no longer hold what `before` would show.
        if (!kv_.truncate(sequence, before)) QUIRE_CHECK(kv_.truncate(sequence, 0).has_value());
        return result;
      }
      logits = *result;
      done += n;
    }
    return logits;
  }

 private:
  Status forward(std::span<const StepItem> items, const StepInputs& inputs, ModelOutput output,
                 float* out) {
    std::vector<PageTableView> tables;
    tables.reserve(items.size() * spec().layers.size());
    for (const StepItem& item : items)
      for (std::size_t layer = 0; layer < spec().layers.size(); ++layer)
        tables.push_back(kv_.table(item.sequence, layer));
    const ModelInput input{.tokens = inputs.tokens,
                           .sequences = inputs.slices,
                           .tables = tables,
                           .logit_rows = inputs.logit_rows,
                           .output = output};
    return model_.forward(input, *pool_, out);
  }

  Status check_context(std::size_t length, std::size_t n_new) const {
    if (n_new <= options_.context && length <= options_.context - n_new) return {};
    return fail(ErrorCode::kInvalidArgument,
                "{} tokens are more than the context of {} tokens (see --ctx)", length + n_new,
                options_.context);
  }

  /// Refuses a length that would not fit even if this sequence had all the pages.
  Status check_fits(std::size_t length) const {
    const std::uint64_t needed = kv_bytes_for(kv_.config(), length);
    const std::uint64_t given = kv_.stats().pages_total * kv_.stats().page_bytes;
    if (needed <= given) return {};
    return fail(ErrorCode::kOutOfMemory,
                "{} tokens need {} of KV memory, the budget is {} (see --kv-memory)", length,
                format_byte_size(needed), format_byte_size(given));
  }

  Result<StepInputs> make_inputs(std::span<const StepItem> items) const {
    StepInputs inputs;
    for (const StepItem& item : items) {
      if (item.tokens.empty()) return fail(ErrorCode::kInvalidArgument, "a step needs tokens");
      const std::size_t length = kv_.length(item.sequence);
      QUIRE_RETURN_IF_ERROR(check_context(length, item.tokens.size()));
      for (const TokenId token : item.tokens)
        if (token < 0 || static_cast<std::size_t>(token) >= spec().n_vocab)
          return fail(ErrorCode::kInvalidArgument, "token {} is not in the vocabulary of {} tokens",
                      token, spec().n_vocab);
      const std::size_t first_row = inputs.tokens.size();
      inputs.slots.push_back({.sequence = item.sequence, .tokens = item.tokens});
      inputs.slices.push_back(
          {.first_row = first_row, .n_tokens = item.tokens.size(), .position = length});
      inputs.tokens.insert(inputs.tokens.end(), item.tokens.begin(), item.tokens.end());
      if (item.logits == LogitsWanted::kAll)
        for (std::size_t i = first_row; i < inputs.tokens.size(); ++i)
          inputs.logit_rows.push_back(i);
      if (item.logits == LogitsWanted::kLast) inputs.logit_rows.push_back(inputs.tokens.size() - 1);
    }
    return inputs;
  }

  EngineOptions options_;
  GgufFile file_;
  std::unique_ptr<Tokenizer> tokenizer_;
  Result<std::optional<ChatTemplate>> chat_template_;
  std::unique_ptr<ThreadPool> pool_;
  Model model_;
  KvManager kv_;
  ScratchArray<float> logits_;
};

}  // namespace

Result<std::unique_ptr<Engine>> Engine::load(const EngineOptions& options,
                                             const ProgressFn& progress) {
  QUIRE_RETURN_IF_ERROR(check_options(options));
  QUIRE_RETURN_IF_ERROR(requested_kernels());
  QUIRE_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(options.model));
  QUIRE_ASSIGN_OR_RETURN(ModelSpec spec, read_model_spec(file));
  QUIRE_ASSIGN_OR_RETURN(const EngineOptions resolved, resolve_options(options, spec));
  // Memory first: a budget that cannot work is refused before weights are touched.
  QUIRE_ASSIGN_OR_RETURN(
      KvManager kv,
      KvManager::create(spec.kv_config(resolved.kv_type, resolved.page_size, resolved.kv_memory)));
  QUIRE_RETURN_IF_ERROR(check_tensors(file, spec));
  QUIRE_ASSIGN_OR_RETURN(auto tokenizer_data, usable_tokenizer_data(file, spec.n_vocab));
  auto chat_template = load_chat_template(file, tokenizer_data);
  if (!chat_template && options.needs_chat_template) return fail(std::move(chat_template).error());
  // The largest part of a refusal's cost, so last of what can be refused.
  QUIRE_ASSIGN_OR_RETURN(auto tokenizer, build_tokenizer(file, std::move(tokenizer_data)));

  QUIRE_RETURN_IF_ERROR(check_weights_fit(file, resolved.precision, available_memory()));
  QUIRE_ASSIGN_OR_RETURN(
      auto pool, ThreadPool::start(resolved.n_threads, options.n_threads == 0
                                                           ? ThreadPool::Neighbours::kYieldTo
                                                           : ThreadPool::Neighbours::kIgnore));
  KvLayout layout_types;
  layout_types.k_type = resolved.kv_type;
  layout_types.v_type = resolved.kv_type;
  layout_types.page_size = static_cast<std::uint32_t>(resolved.page_size);
  QUIRE_ASSIGN_OR_RETURN(Model model, Model::load(file, std::move(spec), layout_types,
                                                  resolved.precision, *pool, progress));
  return std::make_unique<EngineImpl>(resolved, std::move(file), std::move(tokenizer),
                                      std::move(chat_template), std::move(pool), std::move(model),
                                      std::move(kv));
}

}  // namespace quire
