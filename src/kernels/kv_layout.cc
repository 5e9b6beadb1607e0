#include "kernels/kv_layout.h"

namespace quire {

std::string_view kv_type_name(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kBF16:
      return "bf16";
  }
  return "";
}

std::optional<KvType> parse_kv_type(std::string_view name) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16}) {
    if (name == kv_type_name(type)) return type;
  }
  return std::nullopt;
}

}  // namespace quire
