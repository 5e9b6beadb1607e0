#include "model/gguf_tensor_walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "model/gguf_shard.h"
#include "model/gguf_text.h"

namespace quire {
namespace {

class TensorWalk {
 public:
  TensorWalk(ByteCursor& cursor, std::string_view name) : cursor_(cursor), name_(name) {}

  Result<std::vector<GgufRawTensor>> run(std::uint64_t n_tensors) {
    std::vector<GgufRawTensor> out;
    for (std::uint64_t i = 0; i < n_tensors; ++i) {
      raw_ = {};
      raw_.offset = cursor_.offset();
      QUIRE_RETURN_IF_ERROR(read_name(i, n_tensors));
      QUIRE_RETURN_IF_ERROR(read_dimensions());
      QUIRE_RETURN_IF_ERROR(read_type_and_size());
      if (!cursor_.read(raw_.where)) return fail_truncated("its offset");
      out.push_back(raw_);
    }
    return out;
  }

  /// Turns offsets in the data section, which begins behind the records, into places in the file.
  Status place(std::vector<GgufRawTensor>& all, std::uint64_t alignment) {
    const std::uint64_t file_bytes = cursor_.offset() + cursor_.remaining();
    const std::uint64_t start = round_up(cursor_.offset(), alignment);
    for (GgufRawTensor& tensor : all) {
      raw_ = tensor;
      if (tensor.where % alignment != 0)
        return fail_here(ErrorCode::kInvalidData,
                         "its data offset {} is not a multiple of the alignment {}", tensor.where,
                         alignment);
      const std::uint64_t room = file_bytes > start ? file_bytes - start : 0;
      if (tensor.where > room || tensor.bytes > room - tensor.where)
        return fail_here(ErrorCode::kInvalidData,
                         "its {} bytes at offset {} of the data section (byte {}) end past the end "
                         "of the file ({} bytes)",
                         tensor.bytes, tensor.where, start, file_bytes);
      tensor.where += start;
    }
    QUIRE_RETURN_IF_ERROR(refuse_duplicates(all));
    return refuse_overlap(all);
  }

 private:
  template <typename... Args>
  [[nodiscard]] tl::unexpected<Error> fail_here(ErrorCode code, fmt::format_string<Args...> format,
                                                Args&&... args) const {
    return fail(code, "{}: tensor '{}' at byte {}: {}", name_, printable(raw_.name), raw_.offset,
                fmt::format(format, std::forward<Args>(args)...));
  }

  tl::unexpected<Error> fail_truncated(std::string_view what) const {
    return fail_here(ErrorCode::kInvalidData, "the file ends inside {} at byte {} ({} bytes left)",
                     what, cursor_.offset(), cursor_.remaining());
  }

  Status read_name(std::uint64_t i, std::uint64_t n_tensors) {
    std::uint64_t length = 0;
    if (!cursor_.read(length))
      return fail(ErrorCode::kInvalidData,
                  "{}: the file ends at byte {}, before tensor {} of the {} it announces", name_,
                  cursor_.offset() + cursor_.remaining(), i + 1, n_tensors);
    if (length == 0 || length > kMaxGgufTensorNameBytes || !cursor_.read_text(length, raw_.name))
      return fail(ErrorCode::kInvalidData,
                  "{}: tensor {} at byte {}: its name's length is {}, with {} bytes left in the "
                  "file and {} allowed",
                  name_, i + 1, raw_.offset, length, cursor_.remaining(), kMaxGgufTensorNameBytes);
    if (!is_plain_utf8(raw_.name))
      return fail_here(ErrorCode::kInvalidData,
                       "the name is not valid UTF-8 or holds control characters");
    return {};
  }

  Status read_dimensions() {
    if (!cursor_.read(raw_.n_dims)) return fail_truncated("its number of dimensions");
    if (raw_.n_dims < 1 || raw_.n_dims > 4)
      return fail_here(ErrorCode::kInvalidData, "it has {} dimensions, not 1 to 4", raw_.n_dims);
    for (std::uint32_t d = 0; d < raw_.n_dims; ++d) {
      if (!cursor_.read(raw_.ne[d])) return fail_truncated("its dimensions");
      if (raw_.ne[d] == 0) return fail_here(ErrorCode::kInvalidData, "dimension {} is 0", d);
    }
    return {};
  }

  Status read_type_and_size() {
    std::uint32_t id = 0;
    if (!cursor_.read(id)) return fail_truncated("its type");
    const auto type = tensor_type_from_id(id);
    if (!type) return fail_here(ErrorCode::kUnsupported, "type {} is not known here", id);
    raw_.type = *type;
    const TensorTypeInfo& info = tensor_type_info(*type);
    if (raw_.ne[0] % info.block_size != 0)
      return fail_here(ErrorCode::kInvalidData,
                       "its rows have {} elements, not a multiple of the {} of a {} block",
                       raw_.ne[0], info.block_size, info.name);
    std::optional<std::uint64_t> elements = raw_.ne[0];
    for (int d = 1; d < 4 && elements; ++d) elements = checked_mul(*elements, raw_.ne[d]);
    const auto bytes =
        elements ? checked_mul(*elements / info.block_size, std::uint64_t{info.block_bytes})
                 : std::nullopt;
    if (!bytes)
      return fail_here(ErrorCode::kInvalidData, "its dimensions {} x {} x {} x {} overflow 64 bits",
                       raw_.ne[0], raw_.ne[1], raw_.ne[2], raw_.ne[3]);
    raw_.bytes = *bytes;
    return {};
  }

  Status refuse_duplicates(const std::vector<GgufRawTensor>& all) {
    std::vector<const GgufRawTensor*> sorted = pointers(all);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) {
      return std::pair(a->name, a->offset) < std::pair(b->name, b->offset);
    });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      if (sorted[i]->name != sorted[i - 1]->name) continue;
      raw_ = *sorted[i];
      return fail_here(ErrorCode::kInvalidData, "the name was already given at byte {}",
                       sorted[i - 1]->offset);
    }
    return {};
  }

  // Nothing writes tensors that share bytes, so a file that has them is broken or made to confuse.
  Status refuse_overlap(const std::vector<GgufRawTensor>& all) {
    std::vector<const GgufRawTensor*> sorted = pointers(all);
    std::sort(sorted.begin(), sorted.end(),
              [](const auto* a, const auto* b) { return a->where < b->where; });
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      const GgufRawTensor& before = *sorted[i - 1];
      if (before.where + before.bytes <= sorted[i]->where) continue;
      raw_ = *sorted[i];
      return fail_here(ErrorCode::kInvalidData,
                       "its data at byte {} overlaps tensor '{}', whose data ends at byte {}",
                       raw_.where, printable(before.name), before.where + before.bytes);
    }
    return {};
  }

  static std::vector<const GgufRawTensor*> pointers(const std::vector<GgufRawTensor>& all) {
    std::vector<const GgufRawTensor*> out;
    out.reserve(all.size());
    for (const GgufRawTensor& tensor : all) out.push_back(&tensor);
    return out;
  }

  ByteCursor& cursor_;
  std::string_view name_;
  GgufRawTensor raw_;
};

}  // namespace

Result<std::vector<GgufRawTensor>> walk_gguf_tensors(ByteCursor& cursor, std::uint64_t n_tensors,
                                                     std::uint64_t alignment,
                                                     std::string_view name) {
  TensorWalk walk(cursor, name);
  QUIRE_ASSIGN_OR_RETURN(std::vector<GgufRawTensor> tensors, walk.run(n_tensors));
  QUIRE_RETURN_IF_ERROR(walk.place(tensors, alignment));
  return tensors;
}

}  // namespace quire
