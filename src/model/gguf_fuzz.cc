// libFuzzer target: any bytes are a file; whatever is accepted is read to the last byte.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/gguf.h"
#include "model/gguf_text.h"
#include "model/gguf_tokenizer.h"

namespace quire {
namespace {

// Keeps reads that nothing uses from being optimised away.
volatile std::uint64_t sink = 0;

void touch_tensor(const GgufFile& file, const GgufTensor& tensor) {
  QUIRE_CHECK(file.find_tensor(tensor.name) == &tensor);
  QUIRE_CHECK(file.require_tensor(tensor.name, tensor.ne).has_value());
  const TensorTypeInfo& info = tensor_type_info(tensor.type);
  QUIRE_CHECK(tensor.n_elements() / info.block_size * info.block_bytes == tensor.data.size());
  std::uint64_t sum = 0;
  for (const std::byte b : tensor.data) sum += static_cast<std::uint64_t>(b);
  sink = sink + sum;
  std::vector<float> block(info.block_size);
  dequantize(tensor.type, tensor.data.data(), block.size(), block.data());
}

void touch_key(const GgufFile& file, const GgufKeyValue& kv) {
  QUIRE_CHECK(file.find(kv.key) == &kv.value);
  sink = sink + file.require_uint(kv.key, 1, 1000).has_value() +
         file.optional_float(kv.key).has_value() + file.optional_bool(kv.key).has_value() +
         file.optional_uints(kv.key).has_value() + file.optional_ints(kv.key).has_value() +
         file.optional_floats(kv.key).has_value() + file.optional_strings(kv.key).has_value();
  if (const auto text = file.require_string(kv.key)) sink = sink + printable(*text).size();
}

void check_tokenizer(const GgufFile& file) {
  const auto data = tokenizer_data_from_gguf(file);
  if (!data) {
    QUIRE_CHECK(!data.error().message.empty());
    return;
  }
  const auto n = static_cast<TokenId>(data->tokens.size());
  QUIRE_CHECK(data->kinds.empty() || data->kinds.size() == data->tokens.size());
  QUIRE_CHECK(data->scores.empty() || data->scores.size() == data->tokens.size());
  for (const auto& id : {data->bos, data->eos, data->eot, data->eom, data->unk, data->pad})
    QUIRE_CHECK(!id || (*id >= 0 && *id < n));
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quire;
  const auto file = GgufFile::parse(std::as_bytes(std::span(data, size)), "fuzz");
  if (!file) {
    QUIRE_CHECK(file.error().message.starts_with("fuzz"));
    QUIRE_CHECK(is_plain_utf8(file.error().message));
    return 0;
  }
  for (const GgufTensor& tensor : file->tensors()) touch_tensor(*file, tensor);
  for (const GgufKeyValue& kv : file->metadata()) touch_key(*file, kv);
  check_tokenizer(*file);
  return 0;
}
