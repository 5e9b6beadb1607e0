#include "model/weights.h"

#include <array>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/finite_weights.h"

namespace quire {
namespace {

/// Norms and biases read before the weights. Those of a model of 70 billion have 5 MiB.
constexpr std::uint64_t kMaxEarlyBytes = std::uint64_t{8} << 20;

Error not_finite(const GgufFile& file, const GgufTensor& tensor, std::size_t element) {
  return {ErrorCode::kInvalidData,
          fmt::format("{}: tensor '{}' at byte {}: element {} or its block holds a number that is "
                      "not finite",
                      file.name(), tensor.name, tensor.offset, element)};
}

/// In place of the Loader: looks tensors up and remembers which, so that nothing large is done for
/// a model that will be refused, and unused ones can be reported. Then reads the short ones.
class Checker {
 public:
  explicit Checker(const GgufFile& file) : file_(file) {}

  Result<std::vector<float>> vector(const std::string& name, std::size_t n) {
    QUIRE_RETURN_IF_ERROR(short_vector(name, n));
    return std::vector<float>();
  }

  Status matrix(const std::string& name, std::size_t n_rows, std::size_t n_cols) {
    const std::array<std::uint64_t, 2> ne = {n_cols, n_rows};
    QUIRE_RETURN_IF_ERROR(require(name, ne));
    return {};
  }

  Result<Linear> linear(const std::string& name, std::size_t n_rows, std::size_t n_cols) {
    QUIRE_RETURN_IF_ERROR(matrix(name + ".weight", n_rows, n_cols));
    const std::string bias = name + ".bias";
    if (file_.find_tensor(bias) != nullptr) QUIRE_RETURN_IF_ERROR(short_vector(bias, n_rows));
    return Linear();
  }

  /// A layer tensor that is not asked for belongs to a computation that would be left out.
  Status check_all_used() const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!tensor.name.starts_with("blk.") || used_.contains(tensor.name)) continue;
      return fail(
          ErrorCode::kUnsupported,
          "{}: tensor '{}' at byte {} has no place in this architecture: the file describes "
          "a model that is not supported",
          file_.name(), tensor.name, tensor.offset);
    }
    return {};
  }

  /// Of the vectors that were asked for, unless they are absurdly long: then loading finds out.
  Status check_finite() const {
    std::uint64_t n_bytes = 0;
    for (const GgufTensor* tensor : vectors_) {
      n_bytes += tensor->data.size();
      if (n_bytes > kMaxEarlyBytes) return {};
      const auto at = find_not_finite(tensor->type, tensor->data);
      file_.drop_resident();  // a vector can bring megabytes of weights with it
      if (at) return fail(not_finite(file_, *tensor, *at));
    }
    return {};
  }

 private:
  Result<const GgufTensor*> require(const std::string& name, std::span<const std::uint64_t> ne) {
    QUIRE_ASSIGN_OR_RETURN(const GgufTensor* tensor, file_.require_tensor(name, ne));
    used_.insert(tensor->name);
    return tensor;
  }

  Status short_vector(const std::string& name, std::uint64_t n) {
    QUIRE_ASSIGN_OR_RETURN(const GgufTensor* tensor, require(name, std::span(&n, 1)));
    vectors_.push_back(tensor);
    return {};
  }

  const GgufFile& file_;
  std::unordered_set<std::string_view> used_;
  std::vector<const GgufTensor*> vectors_;
};

/// Packs tensors by name.
class Loader {
 public:
  Loader(const GgufFile& file, Precision precision, ThreadPool& pool,
         const std::function<void(double)>& progress)
      : file_(file), precision_(precision), pool_(pool), progress_(progress) {
    for (const GgufTensor& tensor : file.tensors()) total_bytes_ += tensor.data.size();
  }

  Result<std::vector<float>> vector(const std::string& name, std::size_t n) {
    const std::uint64_t ne = n;
    QUIRE_ASSIGN_OR_RETURN(const GgufTensor* tensor, finite_tensor(name, std::span(&ne, 1)));
    std::vector<float> out(n);
    dequantize(tensor->type, tensor->data.data(), n, out.data());
    count(*tensor);
    return out;
  }

  Result<std::vector<float>> optional_vector(const std::string& name, std::size_t n) {
    if (file_.find_tensor(name) == nullptr) return std::vector<float>();
    return vector(name, n);
  }

  Result<PackedMatrix> matrix(const std::string& name, std::size_t n_rows, std::size_t n_cols) {
    QUIRE_ASSIGN_OR_RETURN(const GgufTensor* tensor, matrix_tensor(name, n_rows, n_cols));
    QUIRE_ASSIGN_OR_RETURN(
        PackedMatrix packed,
        PackedMatrix::pack(tensor->type, tensor->data.data(), n_rows, n_cols, precision_, pool_));
    count(*tensor);
    return packed;
  }

  Result<Linear> linear(const std::string& name, std::size_t n_rows, std::size_t n_cols) {
    Linear out;
    QUIRE_ASSIGN_OR_RETURN(out.weight, matrix(name + ".weight", n_rows, n_cols));
    QUIRE_ASSIGN_OR_RETURN(out.bias, optional_vector(name + ".bias", n_rows));
    return out;
  }

  Result<const GgufTensor*> matrix_tensor(const std::string& name, std::size_t n_rows,
                                          std::size_t n_cols) {
    const std::array<std::uint64_t, 2> ne = {n_cols, n_rows};
    return finite_tensor(name, ne);
  }

 private:
  Result<const GgufTensor*> finite_tensor(const std::string& name,
                                          std::span<const std::uint64_t> ne) {
    QUIRE_ASSIGN_OR_RETURN(const GgufTensor* tensor, file_.require_tensor(name, ne));
    if (!checked_.insert(tensor).second) return tensor;
    if (const auto at = find_not_finite(tensor->type, tensor->data, pool_))
      return fail(not_finite(file_, *tensor, *at));
    return tensor;
  }

  void count(const GgufTensor& tensor) {
    drop_resident(tensor);  // packed or copied: the file's bytes are not needed any more
    done_bytes_ += tensor.data.size();
    if (progress_) progress_(static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_));
  }

  const GgufFile& file_;
  Precision precision_;
  ThreadPool& pool_;
  const std::function<void(double)>& progress_;
  std::unordered_set<const GgufTensor*> checked_;  // a tied embedding is asked for twice
  std::uint64_t done_bytes_ = 0;
  std::uint64_t total_bytes_ = 0;
};

template <typename Tensors>
Result<LayerWeights> load_layer(Tensors& loader, const ModelSpec& spec, std::size_t index) {
  const LayerSpec& layer = spec.layers[index];
  const std::size_t hidden = spec.hidden_dim;
  const std::size_t q_dim = layer.n_heads * spec.head_dim;
  const std::size_t kv_dim = layer.n_kv_heads * spec.head_dim;
  const auto name = [index](std::string_view suffix) {
    return fmt::format("blk.{}.{}", index, suffix);
  };

  LayerWeights w;
  QUIRE_ASSIGN_OR_RETURN(w.attn_norm, loader.vector(name("attn_norm.weight"), hidden));
  QUIRE_ASSIGN_OR_RETURN(w.q, loader.linear(name("attn_q"), q_dim, hidden));
  QUIRE_ASSIGN_OR_RETURN(w.k, loader.linear(name("attn_k"), kv_dim, hidden));
  QUIRE_ASSIGN_OR_RETURN(w.v, loader.linear(name("attn_v"), kv_dim, hidden));
  QUIRE_ASSIGN_OR_RETURN(w.o, loader.linear(name("attn_output"), hidden, q_dim));
  if (spec.has_qk_norm) {
    QUIRE_ASSIGN_OR_RETURN(w.q_norm, loader.vector(name("attn_q_norm.weight"), spec.head_dim));
    QUIRE_ASSIGN_OR_RETURN(w.k_norm, loader.vector(name("attn_k_norm.weight"), spec.head_dim));
  }
  QUIRE_ASSIGN_OR_RETURN(w.ffn_norm, loader.vector(name("ffn_norm.weight"), hidden));
  QUIRE_ASSIGN_OR_RETURN(w.gate, loader.linear(name("ffn_gate"), layer.ffn_dim, hidden));
  QUIRE_ASSIGN_OR_RETURN(w.up, loader.linear(name("ffn_up"), layer.ffn_dim, hidden));
  QUIRE_ASSIGN_OR_RETURN(w.down, loader.linear(name("ffn_down"), hidden, layer.ffn_dim));
  if (spec.has_post_norms) {
    QUIRE_ASSIGN_OR_RETURN(w.post_attn_norm,
                           loader.vector(name("post_attention_norm.weight"), hidden));
    QUIRE_ASSIGN_OR_RETURN(w.post_ffn_norm, loader.vector(name("post_ffw_norm.weight"), hidden));
  }
  return w;
}

bool output_is_tied(const GgufFile& file) { return file.find_tensor("output.weight") == nullptr; }

}  // namespace

Status check_tensors(const GgufFile& file, const ModelSpec& spec) {
  Checker checker(file);
  QUIRE_RETURN_IF_ERROR(checker.matrix("token_embd.weight", spec.n_vocab, spec.hidden_dim));
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    if (auto layer = load_layer(checker, spec, i); !layer) return fail(std::move(layer).error());
  }
  QUIRE_RETURN_IF_ERROR(checker.check_all_used());
  if (auto norm = checker.vector("output_norm.weight", spec.hidden_dim); !norm)
    return fail(std::move(norm).error());
  if (!output_is_tied(file))
    QUIRE_RETURN_IF_ERROR(checker.matrix("output.weight", spec.n_vocab, spec.hidden_dim));
  return checker.check_finite();
}

Result<ModelWeights> load_weights(const GgufFile& file, const ModelSpec& spec, Precision precision,
                                  ThreadPool& pool, const std::function<void(double)>& progress) {
  QUIRE_RETURN_IF_ERROR(check_tensors(file, spec));
  Loader loader(file, precision, pool, progress);
  ModelWeights weights;
  QUIRE_ASSIGN_OR_RETURN(weights.embedding,
                         loader.matrix_tensor("token_embd.weight", spec.n_vocab, spec.hidden_dim));
  drop_resident(*weights.embedding);  // read to be checked, and again when it is packed
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    QUIRE_ASSIGN_OR_RETURN(LayerWeights layer, load_layer(loader, spec, i));
    weights.layers.push_back(std::move(layer));
  }
  QUIRE_ASSIGN_OR_RETURN(weights.output_norm, loader.vector("output_norm.weight", spec.hidden_dim));
  const char* output = output_is_tied(file) ? "token_embd.weight" : "output.weight";
  QUIRE_ASSIGN_OR_RETURN(weights.output, loader.matrix(output, spec.n_vocab, spec.hidden_dim));
  return weights;
}

}  // namespace quire
