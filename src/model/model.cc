#include "model/model.h"

#include <algorithm>
#include <string>
#include <utility>

#include "model/forward_pass.h"

namespace quire {

Result<Model> Model::load(const GgufFile& file, ModelSpec spec, KvLayout layout_types,
                          Precision precision, ThreadPool& pool,
                          const std::function<void(double)>& progress) {
  QUIRE_ASSIGN_OR_RETURN(ModelWeights weights, load_weights(file, spec, precision, pool, progress));
  return Model(std::move(spec), std::move(weights), layout_types);
}

Model::Model(ModelSpec spec, ModelWeights weights, KvLayout layout_types)
    : spec_(std::move(spec)),
      weights_(std::move(weights)),
      layout_types_(layout_types),
      kernels_(&quire::kernels()) {
  for (const RopeSpec& rope : spec_.ropes) ropes_.emplace_back(rope);
}

void Model::drop_embedding(std::size_t n_rows) {
  embedded_rows_ += n_rows;
  if (embedded_rows_ < kResidentRows) return;
  drop_resident(*weights_.embedding);
  embedded_rows_ = 0;
}

Status Model::forward(const ModelInput& input, ThreadPool& pool, float* out) {
  ForwardPass pass(spec_, weights_, layout_types_, ropes_, *kernels_, input, pool.n_active(),
                   workspace_);
  pool.run([&](ThreadPool::Worker& worker) { pass.run(worker, out); });
  drop_embedding(input.tokens.size());
  const std::optional<Overflow> overflow = pass.first_overflow();
  if (!overflow) return {};
  const auto slice = std::ranges::find_if(input.sequences, [&](const SequenceSlice& each) {
    return overflow->row < each.first_row + each.n_tokens;
  });
  const auto which = static_cast<std::size_t>(slice - input.sequences.begin());
  const std::string whose =
      input.sequences.size() > 1 ? fmt::format(" of sequence {} of the step", which) : "";
  return fail(ErrorCode::kInvalidData,
              "the model's keys or values at position {}{} overflow {} in layer {}{}",
              workspace_.positions[overflow->row], whose, kv_type_name(layout_types_.k_type),
              overflow->layer,
              layout_types_.k_type == KvType::kF16 ? " (--kv-type bf16 or f32 reach further)" : "");
}

}  // namespace quire
