#include "model/forward_pass.h"

#include <algorithm>
#include <array>

namespace quire {
namespace {

/// Rows that every worker computes for itself outside the products. One always wins: the others
/// would wait for it. The cost grows with the rows times the workers, what it saves does not.
constexpr std::size_t kMaxReplicatedRows = 2;

bool any_int8(std::span<const Linear* const> readers) {
  return std::any_of(readers.begin(), readers.end(),
                     [](const Linear* l) { return l->weight.wants_int8(); });
}

}  // namespace

ForwardPass::ForwardPass(const ModelSpec& spec, const ModelWeights& weights,
                         const KvLayout& layout_types, const std::vector<RopeTable>& ropes,
                         const Kernels& kernels, const ModelInput& input, std::size_t n_workers,
                         Workspace& workspace)
    : spec_(spec),
      weights_(weights),
      layout_types_(layout_types),
      ropes_(ropes),
      k_(kernels),
      in_(&input),
      ws_(workspace),
      n_rows_(input.tokens.size()),
      replicated_(n_workers > 1 && n_rows_ <= std::min(n_workers, kMaxReplicatedRows)) {
  std::size_t kv_dim = 0;
  for (const LayerSpec& layer : spec.layers) {
    max_q_dim_ = std::max(max_q_dim_, layer.n_heads * spec.head_dim);
    kv_dim = std::max(kv_dim, layer.n_kv_heads * spec.head_dim);
    max_ffn_ = std::max(max_ffn_, layer.ffn_dim);
  }
  ws_.replicas.resize(std::max(ws_.replicas.size(), n_workers));
  if (replicated_) {
    for (RowState& state : ws_.replicas) resize(state);
  } else {
    resize(ws_.shared);
  }
  ws_.q.resize(n_rows_ * max_q_dim_);
  ws_.k.resize(n_rows_ * kv_dim);
  ws_.v.resize(n_rows_ * kv_dim);
  ws_.attention.resize(n_rows_ * max_q_dim_);
  ws_.projected.resize(n_rows_ * spec.hidden_dim);
  ws_.gate.resize(n_rows_ * max_ffn_);
  ws_.up.resize(n_rows_ * max_ffn_);
  ws_.overflows.assign(n_workers, std::nullopt);
  ws_.positions.resize(n_rows_);
  for (const SequenceSlice& slice : input.sequences)
    for (std::size_t t = 0; t < slice.n_tokens; ++t)
      ws_.positions[slice.first_row + t] = slice.position + t;
  ws_.cos.resize(ropes.size());
  ws_.sin.resize(ropes.size());
  for (std::size_t r = 0; r < ropes.size(); ++r) {
    ws_.cos[r].resize(n_rows_ * ropes[r].half_dim());
    ws_.sin[r].resize(n_rows_ * ropes[r].half_dim());
  }
  if (!replicated_) logit_input_ = only_logit_rows(input, ws_.logit_rows);
  const std::size_t n_layers = spec.layers.size();
  for (std::size_t layer = 0; layer < n_layers; ++layer) {
    const bool narrow = layer + 1 == n_layers && logit_input_;
    reserve_attention(narrow ? *logit_input_ : input, attention_layer(layer), n_workers, ws_);
  }
}

void ForwardPass::keep_logit_rows() {
  const std::size_t q_dim = spec_.layers.back().n_heads * spec_.head_dim;
  float* residual = ws_.shared.residual.data();
  for (std::size_t i = 0; i < in_->logit_rows.size(); ++i) {
    const std::size_t row = in_->logit_rows[i];  // at least i
    if (row == i) continue;
    std::copy_n(ws_.q.data() + row * q_dim, q_dim, ws_.q.data() + i * q_dim);
    std::copy_n(residual + row * spec_.hidden_dim, spec_.hidden_dim,
                residual + i * spec_.hidden_dim);
  }
  in_ = &*logit_input_;
  n_rows_ = in_->logit_rows.size();
}

void ForwardPass::resize(RowState& state) {
  state.residual.resize(n_rows_ * spec_.hidden_dim);
  state.hidden.resize(n_rows_, spec_.hidden_dim);
  state.attention.resize(n_rows_, max_q_dim_);
  state.ffn.resize(n_rows_, max_ffn_);
  if (replicated_) state.ffn_f32.resize(n_rows_ * max_ffn_);
  state.output.resize(in_->logit_rows.size(), spec_.hidden_dim);
}

ForwardPass::Rows ForwardPass::rows_of(const Worker& worker) const {
  if (replicated_) return {{0, n_rows_}, ws_.replicas[worker.index()]};
  return {worker.share(n_rows_), ws_.shared};
}

void ForwardPass::barrier_unless_replicated(Worker& worker) const {
  if (!replicated_) worker.barrier();
}

AttentionLayer ForwardPass::attention_layer(std::size_t layer) const {
  const LayerSpec& spec = spec_.layers[layer];
  AttentionLayer out{.layout = layout_types_,
                     .n_heads = spec.n_heads,
                     .window = spec.window,
                     .index = layer,
                     .n_layers = spec_.layers.size(),
                     .scale = spec_.attention_scale,
                     .softcap = spec_.attention_softcap};
  out.layout.n_kv_heads = static_cast<std::uint32_t>(spec.n_kv_heads);
  out.layout.head_dim = static_cast<std::uint32_t>(spec_.head_dim);
  return out;
}

void ForwardPass::run(Worker& worker, float* out) {
  embed(worker);
  for (std::size_t layer = 0; layer < spec_.layers.size(); ++layer) {
    attention_input(worker, layer);
    if (layer + 1 == spec_.layers.size() && logit_input_) {
      if (logit_input_->logit_rows.empty()) return;
      if (worker.index() == 0) keep_logit_rows();
      worker.barrier();
    }
    attention_output(worker, layer);
    ffn_block(worker, layer);
  }
  barrier_unless_replicated(worker);  // logit rows are shared out otherwise than residual rows
  if (in_->output == ModelOutput::kHidden)
    hidden_block(worker, out);
  else
    output_block(worker, out);
}

std::optional<Overflow> ForwardPass::first_overflow() const {
  std::optional<Overflow> first;
  for (const std::optional<Overflow>& found : ws_.overflows)
    if (found && (!first || *found < *first)) first = found;
  return first;
}

void ForwardPass::embed(const Worker& worker) {
  const std::size_t hidden = spec_.hidden_dim;
  const GgufTensor& table = *weights_.embedding;
  const TensorTypeInfo& type = tensor_type_info(table.type);
  const std::size_t row_bytes = hidden / type.block_size * type.block_bytes;
  const Rows rows = rows_of(worker);
  for (std::size_t i = rows.range.begin; i < rows.range.end; ++i) {
    if ((i - rows.range.begin) % kResidentRows == kResidentRows - 1) drop_resident(table);
    float* x = rows.state.residual.data() + i * hidden;
    dequantize(table.type, table.data.data() + static_cast<std::size_t>(in_->tokens[i]) * row_bytes,
               hidden, x);
    if (spec_.embedding_scale != 1) k_.scale(spec_.embedding_scale, x, hidden);
    if (replicated_ && worker.index() != 0) continue;  // angles are read behind a barrier
    for (std::size_t r = 0; r < ropes_.size(); ++r) {
      const std::size_t half = ropes_[r].half_dim();
      ropes_[r].fill(ws_.positions[i], ws_.cos[r].data() + i * half, ws_.sin[r].data() + i * half);
    }
  }
}

void ForwardPass::norm_rows(const Worker& worker, const std::vector<float>& weight, bool int8) {
  const std::size_t hidden = spec_.hidden_dim;
  const Rows rows = rows_of(worker);
  for (std::size_t i = rows.range.begin; i < rows.range.end; ++i) {
    k_.rms_norm(rows.state.residual.data() + i * hidden, weight.data(), spec_.norm_eps, hidden,
                rows.state.hidden.row(i));
    if (int8) rows.state.hidden.quantize(k_, i);
  }
}

void ForwardPass::linears(const Worker& worker, std::span<const Job> jobs,
                          const ActivationView& input) {
  std::size_t total = 0;
  for (const Job& job : jobs) total += job.linear->weight.n_panels();
  const Range share = worker.share(total);
  std::size_t first = 0;
  for (const Job& job : jobs) {
    const std::size_t n = job.linear->weight.n_panels();
    const Range panels{std::clamp(share.begin, first, first + n) - first,
                       std::clamp(share.end, first, first + n) - first};
    first += n;
    if (panels.begin == panels.end) continue;
    const std::size_t width = job.linear->weight.n_rows();
    k_.linear(job.linear->weight, input, panels, {0, n_rows_}, job.out, width);
    if (job.linear->bias.empty()) continue;
    const std::size_t column = panels.begin * kPanelRows;
    const std::size_t n_columns = std::min(panels.end * kPanelRows, width) - column;
    for (std::size_t i = 0; i < n_rows_; ++i)
      k_.add(job.linear->bias.data() + column, job.out + i * width + column, n_columns);
  }
}

void ForwardPass::prefetch(const Worker& worker, std::span<const Linear* const> layers) const {
  if (!replicated_) return;
  constexpr std::size_t kBytes = 32768;
  std::size_t total = 0;
  for (const Linear* layer : layers) total += layer->weight.n_panels();
  std::size_t panel = worker.share(total).begin;
  for (const Linear* layer : layers) {
    const PackedMatrix& weight = layer->weight;
    if (panel >= weight.n_panels()) {
      panel -= weight.n_panels();
      continue;
    }
    const std::byte* from = weight.panel(panel);
    const auto left = static_cast<std::size_t>(weight.panel(weight.n_panels()) - from);
    for (std::size_t i = 0; i < std::min(left, kBytes); i += 64) __builtin_prefetch(from + i, 0, 2);
    return;
  }
}

void ForwardPass::attention_input(Worker& worker, std::size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  norm_rows(worker, w.attn_norm, any_int8(std::array{&w.q, &w.k, &w.v}));
  barrier_unless_replicated(worker);

  const std::array<Job, 3> jobs = {
      {{&w.q, ws_.q.data()}, {&w.k, ws_.k.data()}, {&w.v, ws_.v.data()}}};
  linears(worker, jobs, rows_of(worker).state.hidden.view());
  prefetch(worker, std::array{&w.o});
  worker.barrier();

  finish_qkv(worker, layer);
  worker.barrier();
}

void ForwardPass::attention_output(Worker& worker, std::size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const Rows rows = rows_of(worker);
  const std::size_t q_dim = spec_.layers[layer].n_heads * spec_.head_dim;

  paged_attention(worker, k_, *in_, attention_layer(layer), ws_);
  // Capacity was taken in the constructor: this only sets the row length of the layer.
  if (replicated_ || worker.index() == 0) rows.state.attention.resize(n_rows_, q_dim);
  worker.barrier();

  if (w.o.weight.wants_int8()) {
    for (std::size_t i = rows.range.begin; i < rows.range.end; ++i)
      k_.quantize_row(ws_.attention.data() + i * q_dim, i, rows.state.attention.view());
    barrier_unless_replicated(worker);
  }
  const ActivationView attention{
      .f32 = ws_.attention.data(), .f32_stride = q_dim, .int8 = rows.state.attention.view()};
  linears(worker, std::array<Job, 1>{{{&w.o, ws_.projected.data()}}}, attention);
  prefetch(worker, std::array{&w.gate, &w.up});
  worker.barrier();
  add_projected(worker, w.post_attn_norm);
}

void ForwardPass::finish_qkv(const Worker& worker, std::size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const LayerSpec& spec = spec_.layers[layer];
  const std::size_t head_dim = spec_.head_dim;
  const std::size_t q_dim = spec.n_heads * head_dim;
  const std::size_t kv_dim = spec.n_kv_heads * head_dim;
  const RopeTable& rope = ropes_[spec.rope];
  const RopeSpec& rope_spec = spec_.ropes[spec.rope];
  KvLayout layout = layout_types_;
  layout.n_kv_heads = static_cast<std::uint32_t>(spec.n_kv_heads);
  layout.head_dim = static_cast<std::uint32_t>(head_dim);

  const auto finish = [&](float* x, std::size_t n_heads, const std::vector<float>& norm,
                          std::size_t row) {
    if (!norm.empty())
      for (std::size_t h = 0; h < n_heads; ++h)
        k_.rms_norm(x + h * head_dim, norm.data(), spec_.norm_eps, head_dim, x + h * head_dim);
    k_.rope(x, n_heads, head_dim, rope_spec.rope_dim, rope_spec.style,
            ws_.cos[spec.rope].data() + row * rope.half_dim(),
            ws_.sin[spec.rope].data() + row * rope.half_dim());
  };

  const Range rows = worker.share(n_rows_);
  for (std::size_t s = 0; s < in_->sequences.size(); ++s) {
    const SequenceSlice& slice = in_->sequences[s];
    const PageTableView& table = in_->tables[s * spec_.layers.size() + layer];
    const std::size_t begin = std::max(rows.begin, slice.first_row);
    const std::size_t end = std::min(rows.end, slice.first_row + slice.n_tokens);
    for (std::size_t row = begin; row < end; ++row) {
      float* q = ws_.q.data() + row * q_dim;
      float* k = ws_.k.data() + row * kv_dim;
      float* v = ws_.v.data() + row * kv_dim;
      finish(q, spec.n_heads, w.q_norm, row);
      finish(k, spec.n_kv_heads, w.k_norm, row);
      const std::size_t position = ws_.positions[row];
      std::byte* page = table.pages[position / layout.page_size - table.first_page];
      std::optional<Overflow>& overflow = ws_.overflows[worker.index()];
      if (!k_.kv_write(layout, page, position % layout.page_size, k, v) && !overflow)
        overflow = {layer, row};
    }
  }
}

void ForwardPass::add_projected(const Worker& worker, const std::vector<float>& post_norm) {
  const std::size_t hidden = spec_.hidden_dim;
  const Rows rows = rows_of(worker);
  for (std::size_t i = rows.range.begin; i < rows.range.end; ++i) {
    const float* added = ws_.projected.data() + i * hidden;
    if (!post_norm.empty()) {
      float* normed = rows.state.hidden.row(i);  // not in place: other workers may read the row too
      k_.rms_norm(added, post_norm.data(), spec_.norm_eps, hidden, normed);
      added = normed;
    }
    k_.add(added, rows.state.residual.data() + i * hidden, hidden);
  }
}

void ForwardPass::ffn_block(Worker& worker, std::size_t layer) {
  const LayerWeights& w = weights_.layers[layer];
  const std::size_t ffn = spec_.layers[layer].ffn_dim;
  const Rows rows = rows_of(worker);

  norm_rows(worker, w.ffn_norm, any_int8(std::array{&w.gate, &w.up}));
  barrier_unless_replicated(worker);

  const std::array<Job, 2> jobs = {{{&w.gate, ws_.gate.data()}, {&w.up, ws_.up.data()}}};
  linears(worker, jobs, rows.state.hidden.view());
  if (replicated_ || worker.index() == 0) rows.state.ffn.resize(n_rows_, ffn);  // as above
  prefetch(worker, std::array{&w.down});
  worker.barrier();

  const auto activate = spec_.activation == Activation::kSilu ? k_.silu_mul : k_.gelu_tanh_mul;
  // In place, unless others compute the same rows.
  float* activated = replicated_ ? rows.state.ffn_f32.data() : ws_.gate.data();
  for (std::size_t i = rows.range.begin; i < rows.range.end; ++i) {
    activate(ws_.gate.data() + i * ffn, ws_.up.data() + i * ffn, activated + i * ffn, ffn);
    if (w.down.weight.wants_int8()) k_.quantize_row(activated + i * ffn, i, rows.state.ffn.view());
  }
  barrier_unless_replicated(worker);
  const ActivationView input{.f32 = activated, .f32_stride = ffn, .int8 = rows.state.ffn.view()};
  linears(worker, std::array<Job, 1>{{{&w.down, ws_.projected.data()}}}, input);
  if (layer + 1 < spec_.layers.size()) {
    const LayerWeights& next = weights_.layers[layer + 1];
    prefetch(worker, std::array{&next.q, &next.k, &next.v});
  }
  worker.barrier();
  add_projected(worker, w.post_ffn_norm);
}

void ForwardPass::hidden_block(Worker& worker, float* out) {
  const std::size_t hidden = spec_.hidden_dim;
  const RowState& state = rows_of(worker).state;
  const Range rows = worker.share(in_->logit_rows.size());
  for (std::size_t i = rows.begin; i < rows.end; ++i)
    k_.rms_norm(state.residual.data() + in_->logit_rows[i] * hidden, weights_.output_norm.data(),
                spec_.norm_eps, hidden, out + i * hidden);
}

void ForwardPass::output_block(Worker& worker, float* logits) {
  const std::size_t n = in_->logit_rows.size();
  if (n == 0) return;
  const std::size_t hidden = spec_.hidden_dim;
  RowState& state = rows_of(worker).state;
  const Range rows = worker.share(n);
  const Range normed = replicated_ ? Range{0, n} : rows;
  for (std::size_t i = normed.begin; i < normed.end; ++i) {
    k_.rms_norm(state.residual.data() + in_->logit_rows[i] * hidden, weights_.output_norm.data(),
                spec_.norm_eps, hidden, state.output.row(i));
    if (weights_.output.wants_int8()) state.output.quantize(k_, i);
  }
  barrier_unless_replicated(worker);
  k_.linear(weights_.output, state.output.view(), worker.share(weights_.output.n_panels()), {0, n},
            logits, spec_.n_vocab);
  if (spec_.final_softcap != 0) {
    worker.barrier();
    for (std::size_t i = rows.begin; i < rows.end; ++i)
      k_.softcap(spec_.final_softcap, logits + i * spec_.n_vocab, spec_.n_vocab);
  }
}

}  // namespace quire
