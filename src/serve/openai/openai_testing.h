#pragma once
// A tokenizer that shows what was done: one token for each byte, and two control tokens.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/openai/prepare.h"
#include "serve/openai/response_writer.h"

namespace quire::openai::testing {

class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr TokenId kBos = 256;
  static constexpr TokenId kEnd = 257;

  explicit ByteTokenizer(bool add_bos = true) : Tokenizer(make_data(add_bos)) {}

  Result<std::vector<TokenId>> encode(std::string_view text, ParseSpecial special) const override {
    std::vector<TokenId> ids;
    while (!text.empty()) {
      TokenId id = static_cast<unsigned char>(text[0]);
      std::size_t n = 1;
      for (const TokenId control : {kBos, kEnd}) {
        const std::string& name = data().tokens[static_cast<std::size_t>(control)];
        if (special == ParseSpecial::kNo || !text.starts_with(name)) continue;
        id = control;
        n = name.size();
      }
      ids.push_back(id);
      text.remove_prefix(n);
    }
    return ids;
  }
  std::string token_bytes(TokenId id, bool show_special) const override {
    if (id < 0 || id > kEnd || (id >= kBos && !show_special)) return {};
    return data().tokens[static_cast<std::size_t>(id)];
  }
  bool adds_space_prefix() const override { return false; }

 private:
  static TokenizerData make_data(bool add_bos) {
    TokenizerData data;
    for (int i = 0; i < 256; ++i) data.tokens.push_back(std::string(1, static_cast<char>(i)));
    data.kinds.assign(256, TokenKind::kNormal);
    data.tokens.insert(data.tokens.end(), {"<s>", "<|end|>"});
    data.kinds.resize(data.tokens.size(), TokenKind::kControl);
    data.bos = kBos;
    data.eos = kEnd;
    data.add_bos = add_bos;
    return data;
  }
};

inline constexpr std::string_view kTemplate =
    "{% for m in messages %}[{{ m.role }}:{{ m.content }}]<|end|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant:{% endif %}";

/// A model that can be asked, without weights.
struct TestModel {
  explicit TestModel(std::size_t context = 1000, bool add_bos = true) : tokenizer(add_bos) {
    auto parsed = ChatTemplate::parse(kTemplate, "<s>", "<|end|>");
    if (parsed)
      chat.emplace(std::move(*parsed));
    else
      ADD_FAILURE() << parsed.error().message;
    chat_template = std::move(chat);
    served.names = {"tiny", "tiny-alias"};
    served.tokenizer = &tokenizer;
    served.chat_template = &chat_template;
    served.context = context;
    served.n_embd = 3;
    served.created = 1700000000;
    served.fingerprint = "fp_1";
    served.has_embeddings = true;
  }
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  ByteTokenizer tokenizer;
  std::optional<ChatTemplate> chat;
  Result<std::optional<ChatTemplate>> chat_template = std::optional<ChatTemplate>();
  ServedModel served;
};

/// The token ids as text, control tokens by name.
inline std::string spell(const std::vector<TokenId>& ids) {
  const ByteTokenizer tokenizer;
  std::string out;
  for (const TokenId id : ids) out += tokenizer.token_bytes(id, true);
  return out;
}

/// A value inside JSON, as "choices.0.message.content"; the test fails if there is none.
inline boost::json::value at(const boost::json::value& root, std::string_view path) {
  const boost::json::value* value = &root;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string key(path.substr(0, dot));
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    const boost::json::value* next = nullptr;
    if (const auto* object = value->if_object()) next = object->if_contains(key);
    if (const auto* array = value->if_array())
      next = array->if_contains(static_cast<std::size_t>(std::stoul(key)));
    if (next == nullptr) {
      ADD_FAILURE() << "no " << key << " in " << *value;
      return nullptr;
    }
    value = next;
  }
  return *value;
}

/// What a writer sent.
struct Sent {
  std::vector<ResponsePart> parts;
  ResponseOutput output() {
    return [this](ResponsePart part) { parts.push_back(std::move(part)); };
  }
  std::string bytes() const {
    std::string out;
    for (const ResponsePart& part : parts) out += part.bytes;
    return out;
  }
};

/// The data of the events of a stream, in order; the test fails if it is not one.
inline std::vector<std::string> events(std::string_view stream) {
  std::vector<std::string> out;
  while (!stream.empty()) {
    const std::size_t end = stream.find("\n\n");
    if (end == std::string_view::npos) {
      ADD_FAILURE() << "unfinished event: " << stream;
      break;
    }
    std::string_view event = stream.substr(0, end);
    stream.remove_prefix(end + 2);
    if (event.starts_with("event: ")) event.remove_prefix(event.find('\n') + 1);
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    out.emplace_back(event.substr(6));
  }
  return out;
}

inline SampledToken sampled(TokenId token, float logprob = -1.0f,
                            std::vector<TokenLogprob> top = {}) {
  return {.token = token, .logprob = logprob, .top = std::move(top)};
}

}  // namespace quire::openai::testing
