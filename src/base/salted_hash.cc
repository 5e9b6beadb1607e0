#include "base/salted_hash.h"

#include <bit>
#include <cstring>
#include <random>

namespace quire {
namespace {

struct State {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }

  void take(std::uint64_t word) {
    v3 ^= word;
    round();
    v0 ^= word;
  }
};

struct Key {
  std::uint64_t words[2];
  Key() {
    std::random_device device;
    for (std::uint64_t& word : words) word = (std::uint64_t{device()} << 32) | device();
  }
};

}  // namespace

std::uint64_t sip_hash_1_3(const std::uint64_t (&key)[2], std::string_view text) {
  State state{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du,
              key[0] ^ 0x6c7967656e657261u, key[1] ^ 0x7465646279746573u};
  const std::uint64_t size = text.size();
  while (text.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    state.take(word);
    text.remove_prefix(8);
  }
  std::uint64_t last = size << 56;
  for (std::size_t i = 0; i < text.size(); ++i)
    last |= std::uint64_t{static_cast<unsigned char>(text[i])} << (8 * i);
  state.take(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 3; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

std::uint64_t salted_hash(std::string_view text) {
  static const Key key;
  return sip_hash_1_3(key.words, text);
}

}  // namespace quire
