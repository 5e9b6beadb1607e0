#pragma once
// What the Rust library hands out, owned the C++ way.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "quire_bridge.h"

namespace quire::bridge {

inline quire_str borrow(std::string_view text) { return {text.data(), text.size()}; }

/// The texts of a container with operator[], where they are.
template <class Container>
quire_texts borrow_all(const Container& texts) {
  const auto at = [](const void* items, std::size_t i) {
    return borrow((*static_cast<const Container*>(items))[i]);
  };
  return {.items = &texts, .at = at, .size = texts.size()};
}

class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { quire_buffer_free(&raw_); }

  quire_buffer* out() { return &raw_; }
  std::string str() const { return raw_.size ? std::string(raw_.data, raw_.size) : std::string(); }
  /// The buffer's text as the failure of a Result.
  tl::unexpected<Error> as_error(ErrorCode code) const { return fail(Error{code, str()}); }

 private:
  quire_buffer raw_{};
};

class Ids {
 public:
  Ids() = default;
  Ids(const Ids&) = delete;
  Ids& operator=(const Ids&) = delete;
  ~Ids() { quire_ids_free(&raw_); }

  quire_ids* out() { return &raw_; }
  const std::int32_t* begin() const { return raw_.data; }
  const std::int32_t* end() const { return raw_.data + raw_.size; }

 private:
  quire_ids raw_{};
};

struct FreeBpe {
  void operator()(quire_bpe* p) const { quire_bpe_free(p); }
};
struct FreeTemplate {
  void operator()(quire_template* p) const { quire_template_free(p); }
};
using BpeHandle = std::unique_ptr<quire_bpe, FreeBpe>;
using TemplateHandle = std::unique_ptr<quire_template, FreeTemplate>;

}  // namespace quire::bridge
