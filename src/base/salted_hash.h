#pragma once

#include <cstdint>
#include <string_view>

namespace quire {

/// SipHash-1-3 (Aumasson and Bernstein 2012; the variant of Rust's and Python's tables) under a key
/// that each process draws anew: whoever chooses the texts cannot choose where they go in a table.
std::uint64_t salted_hash(std::string_view text);

/// The same under a given key, k[0] and k[1].
std::uint64_t sip_hash_1_3(const std::uint64_t (&key)[2], std::string_view text);

/// For tables of the standard library.
struct SaltedHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return salted_hash(text); }
};

}  // namespace quire
