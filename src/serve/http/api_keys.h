#pragma once
// Who may use the server.

#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/http/http_request.h"

namespace quire {

/// Keys by their SHA-256; the keys themselves are nowhere. Several keys may have one name: that is
/// how a key is replaced without a moment in which none is valid.
class ApiKeys {
 public:
  /// One `name:sha256` per line, the hash in hexadecimal; empty lines and # comments mean nothing.
  /// Refused: a file that others than its owner may write to, since who can add a line has a key.
  static Result<std::shared_ptr<const ApiKeys>> load(const std::filesystem::path& file);

  /// The name of the key in `Authorization: Bearer KEY`; none: nobody's. Takes the same time
  /// whichever key it is, and whether it is one.
  std::optional<std::string> tenant_of(const HttpRequest& request) const;

  std::size_t size() const { return keys_.size(); }

 private:
  using Digest = std::array<unsigned char, 32>;
  struct Key {
    std::string name;
    Digest digest{};
  };

  Status add_line(std::string_view line, const std::string& where);

  std::vector<Key> keys_;
};

}  // namespace quire
