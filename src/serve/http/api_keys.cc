#include "serve/http/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/hex.h"

namespace quire {
namespace {

constexpr std::size_t kMaxName = 64;

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool is_name(std::string_view name) {
  static constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  return !name.empty() && name.size() <= kMaxName &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

template <typename Digest>
bool parse_digest(std::string_view hex, Digest& digest) {
  if (hex.size() != 2 * digest.size()) return false;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    const int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    digest[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

/// The key of the header, empty if there is none or more than one.
std::string_view bearer(const HttpRequest& request) {
  std::string_view value;
  std::size_t n = 0;
  for (const HttpHeader& header : request.headers) {
    if (!http::equal_ignoring_case(header.name, "Authorization")) continue;
    value = header.value;
    ++n;
  }
  static constexpr std::string_view kScheme = "Bearer ";
  if (n != 1 || value.size() <= kScheme.size() ||
      !http::equal_ignoring_case(value.substr(0, kScheme.size()), kScheme))
    return {};
  return trim(value.substr(kScheme.size()));
}

}  // namespace

Result<std::shared_ptr<const ApiKeys>> ApiKeys::load(const std::filesystem::path& file) {
  struct stat info{};
  std::ifstream stream(file);
  if (::stat(file.c_str(), &info) != 0 || !stream)
    return fail(ErrorCode::kIo, "cannot read the API keys in {}: {}", file.string(),
                std::strerror(errno));
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail(ErrorCode::kInvalidArgument,
                "others than the owner may write to {}, and so give themselves a key: "
                "run chmod go-w on it",
                file.string());
  auto keys = std::make_shared<ApiKeys>();
  std::string line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    const std::string_view text = trim(line);
    if (text.empty() || text.starts_with('#')) continue;
    QUIRE_RETURN_IF_ERROR(keys->add_line(text, fmt::format("{}:{}", file.string(), number)));
  }
  if (keys->keys_.empty())
    return fail(ErrorCode::kInvalidData, "{} holds no API key, so nobody could use the server",
                file.string());
  return keys;
}

Status ApiKeys::add_line(std::string_view line, const std::string& where) {
  const std::size_t colon = line.find(':');
  const std::string_view name = trim(line.substr(0, colon));
  const std::string_view hex =
      colon == std::string_view::npos ? std::string_view() : trim(line.substr(colon + 1));
  Key key{.name = std::string(name)};
  // The line is not shown: it may be the key itself, written there by mistake.
  if (!is_name(name) || !parse_digest(hex, key.digest))
    return fail(ErrorCode::kInvalidData,
                "{} is no name:sha256 with up to {} letters, digits and ._- as the name and 64 "
                "hexadecimal digits as the hash of the key",
                where, kMaxName);
  for (const Key& other : keys_)
    if (other.digest == key.digest)
      return fail(ErrorCode::kInvalidData, "{} has the same key as a line above it", where);
  keys_.push_back(std::move(key));
  return {};
}

std::optional<std::string> ApiKeys::tenant_of(const HttpRequest& request) const {
  const std::string_view key = bearer(request);
  Digest digest{};
  unsigned n_bytes = 0;
  if (key.empty() ||
      EVP_Digest(key.data(), key.size(), digest.data(), &n_bytes, EVP_sha256(), nullptr) != 1)
    return std::nullopt;
  const Key* found = nullptr;
  for (const Key& each : keys_)
    if (CRYPTO_memcmp(each.digest.data(), digest.data(), digest.size()) == 0) found = &each;
  if (found == nullptr) return std::nullopt;
  return found->name;
}

}  // namespace quire
