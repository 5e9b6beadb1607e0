#include "serve/openai/listings.h"

#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <cstdint>
#include <utility>

namespace quire::openai {
namespace {

namespace json = boost::json;

json::object model_object(const std::string& name, const ServedModel& model) {
  return {{"id", name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "quire"},
          {"max_model_len", model.context}};
}

// RFC 4648, with padding.
std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string little_endian(std::span<const float> vector) {
  std::string out;
  out.reserve(vector.size() * 4);
  for (const float x : vector) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(bits >> shift & 255);
  }
  return out;
}

}  // namespace

std::string models_json(const ServedModel& model) {
  json::array data;
  for (const std::string& name : model.names) data.push_back(model_object(name, model));
  return json::serialize(json::object{{"object", "list"}, {"data", std::move(data)}});
}

ApiResult<std::string> model_json(const std::string& name, const ServedModel& model) {
  QUIRE_RETURN_IF_ERROR(check_model(name, model));
  return json::serialize(model_object(name.empty() ? model.names.front() : name, model));
}

std::string embeddings_json(std::span<const std::vector<float>> vectors, bool base64,
                            std::size_t n_tokens, const ServedModel& model) {
  json::array data;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    json::object entry{{"object", "embedding"}, {"index", i}};
    if (base64)
      entry["embedding"] = base64_of(little_endian(vectors[i]));
    else
      entry["embedding"] = json::array(vectors[i].begin(), vectors[i].end());
    data.push_back(std::move(entry));
  }
  return json::serialize(json::object{
      {"object", "list"},
      {"data", std::move(data)},
      {"model", model.names.empty() ? std::string() : model.names.front()},
      {"usage", json::object{{"prompt_tokens", n_tokens}, {"total_tokens", n_tokens}}}});
}

}  // namespace quire::openai
