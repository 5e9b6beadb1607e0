#include "tests/support/oracle_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace quire::testing {
namespace {

static_assert(std::endian::native == std::endian::little, "oracle files are little-endian");
constexpr std::string_view kMagic = "QORACLE1";

/// Reads values one after the other; after the end it yields zeros and `ok` is false.
class Cursor {
 public:
  explicit Cursor(std::span<const char> bytes) : rest_(bytes) {}

  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (rest_.size() < sizeof(T)) {
      ok_ = false;
      rest_ = {};
    } else {
      std::memcpy(&value, rest_.data(), sizeof(T));
      rest_ = rest_.subspan(sizeof(T));
    }
    return value;
  }

  template <typename T>
  std::vector<T> take_many(std::uint32_t n) {
    if (n > rest_.size() / sizeof(T)) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    std::vector<T> values(n);
    for (T& value : values) value = take<T>();
    return values;
  }

  bool ok() const { return ok_; }
  bool at_end() const { return rest_.empty(); }

 private:
  std::span<const char> rest_;
  bool ok_ = true;
};

/// The largest and second-largest logit among those kept, which always hold the real two.
void find_top(OracleRow& row) {
  float best = -std::numeric_limits<float>::infinity();
  for (const OracleLogit& logit : row.logits) {
    if (logit.value > best) {
      best = logit.value;
      row.top = logit.id;
    }
  }
  float second = -std::numeric_limits<float>::infinity();
  for (const OracleLogit& logit : row.logits) {
    if (logit.id != row.top) second = std::max(second, logit.value);
  }
  row.margin = best - second;
}

OracleRow read_row(Cursor& in, std::span<const std::uint32_t> fixed_ids, std::uint32_t n_top) {
  OracleRow row;
  row.position = in.take<std::uint32_t>();
  row.logsumexp = in.take<float>();
  const auto top_ids = in.take_many<std::uint32_t>(n_top);
  const auto top_values = in.take_many<float>(n_top);
  const auto fixed_values = in.take_many<float>(static_cast<std::uint32_t>(fixed_ids.size()));
  if (!in.ok()) return row;
  row.logits.reserve(n_top + fixed_ids.size());
  for (std::size_t i = 0; i < n_top; ++i) {
    row.logits.push_back({static_cast<TokenId>(top_ids[i]), top_values[i]});
  }
  for (std::size_t i = 0; i < fixed_ids.size(); ++i) {
    row.logits.push_back({static_cast<TokenId>(fixed_ids[i]), fixed_values[i]});
  }
  find_top(row);
  return row;
}

OracleText read_text(Cursor& in, std::span<const std::uint32_t> fixed_ids, std::uint32_t n_top) {
  OracleText text;
  const auto n_tokens = in.take<std::uint32_t>();
  const auto n_rows = in.take<std::uint32_t>();
  const auto n_wide = in.take<std::uint32_t>();
  text.tokens = in.take_many<TokenId>(n_tokens);
  for (std::uint32_t i = 0; i < n_rows && in.ok(); ++i) {
    text.rows.push_back(read_row(in, fixed_ids, n_top));
  }
  if (n_wide > 0 && in.ok() && !text.rows.empty()) {
    const auto stride = in.take<std::uint32_t>();
    const auto values = in.take_many<float>(n_wide);
    for (std::uint32_t i = 0; i < values.size(); ++i) {
      text.rows.back().logits.push_back({static_cast<TokenId>(i * stride), values[i]});
    }
  }
  return text;
}

}  // namespace

float OracleRow::max_difference(std::span<const float> row) const {
  float largest = 0;
  for (const OracleLogit& logit : logits) {
    QUIRE_CHECK(static_cast<std::size_t>(logit.id) < row.size());
    const float difference = std::abs(row[static_cast<std::size_t>(logit.id)] - logit.value);
    if (!(difference <= std::numeric_limits<float>::max())) {
      return std::numeric_limits<float>::infinity();
    }
    largest = std::max(largest, difference);
  }
  return largest;
}

bool OracleRow::top_agrees(std::span<const float> row, float tolerance) const {
  if (margin <= tolerance) return true;
  const auto leader = std::max_element(row.begin(), row.end()) - row.begin();
  return leader == static_cast<std::ptrdiff_t>(top);
}

Result<OracleFile> OracleFile::open(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return fail(ErrorCode::kIo, "cannot open the oracle file {}", path.string());
  const std::vector<char> bytes{std::istreambuf_iterator<char>(stream),
                                std::istreambuf_iterator<char>()};
  if (bytes.size() < kMagic.size() || std::string_view(bytes.data(), kMagic.size()) != kMagic) {
    return fail(ErrorCode::kInvalidData, "{} is not an oracle file", path.string());
  }
  Cursor in{std::span<const char>(bytes).subspan(kMagic.size())};
  OracleFile file;
  file.vocab_size = in.take<std::uint32_t>();
  const auto n_fixed = in.take<std::uint32_t>();
  const auto n_top = in.take<std::uint32_t>();
  const auto n_texts = in.take<std::uint32_t>();
  const auto fixed_ids = in.take_many<std::uint32_t>(n_fixed);
  for (std::uint32_t i = 0; i < n_texts && in.ok(); ++i) {
    file.texts.push_back(read_text(in, fixed_ids, n_top));
  }
  if (!in.ok() || !in.at_end()) {
    return fail(ErrorCode::kInvalidData, "the oracle file {} is cut short or too long",
                path.string());
  }
  for (const OracleText& text : file.texts) {
    for (const OracleRow& row : text.rows) {
      for (const OracleLogit& logit : row.logits) {
        if (logit.id < 0 || static_cast<std::uint32_t>(logit.id) >= file.vocab_size) {
          return fail(ErrorCode::kInvalidData, "the oracle file {} has the id {} of {}",
                      path.string(), logit.id, file.vocab_size);
        }
      }
    }
  }
  return file;
}

}  // namespace quire::testing
