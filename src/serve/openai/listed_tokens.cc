#include "serve/openai/listed_tokens.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "text/utf8.h"

namespace quire::openai {
namespace {

std::string token_bytes(const Tokenizer& tokenizer, TokenId id) {
  return tokenizer.token_bytes(id, /*show_special=*/true);
}

// "token", "logprob" and "bytes" of an object that is still open.
void append_token(std::string& out, TokenId id, float logprob, const Tokenizer& tokenizer) {
  const std::string bytes = token_bytes(tokenizer, id);
  out += R"({"token":)";
  append_json(out, replace_invalid_utf8(bytes));
  out += R"(,"logprob":)";
  append_json(out, logprob);
  out += R"(,"bytes":[)";
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    fmt::format_to(std::back_inserter(out), "{}", static_cast<unsigned char>(bytes[i]));
  }
  out += ']';
}

// One object of {text: logprob}. Tokens whose bytes are not UTF-8 may share a text: the likeliest
// counts, since keys must differ.
void append_alternatives(std::string& out, const SampledToken& token, const Tokenizer& tokenizer) {
  std::set<std::string> texts;
  const auto add = [&](TokenId id, float logprob) {
    std::string text = replace_invalid_utf8(token_bytes(tokenizer, id));
    if (texts.contains(text)) return;
    if (!texts.empty()) out += ',';
    append_json(out, text);
    out += ':';
    append_json(out, logprob);
    texts.insert(std::move(text));
  };
  out += '{';
  for (const TokenLogprob& other : token.top) add(other.token, other.logprob);
  add(token.token, token.logprob);
  out += '}';
}

template <typename Append>
void append_array(std::string& out, std::string_view name, std::span<const ListedToken> tokens,
                  const Append& append) {
  fmt::format_to(std::back_inserter(out), R"("{}":[)", name);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append(tokens[i]);
  }
  out += ']';
}

}  // namespace

std::size_t count_chars(std::string_view text) {
  std::size_t n = 0;
  for (const char c : text) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return n;
}

std::vector<ListedToken> TokenTrail::push(std::span<const SampledToken> tokens,
                                          std::string_view text) {
  for (const SampledToken& token : tokens) {
    if (tokenizer_->is_end_of_generation(token.token) && !ignore_eos_) continue;
    waiting_.push_back({{token, decoded_chars_}, decoded_bytes_});
    const std::string decoded = decoder_.push(token.token);
    decoded_bytes_ += decoded.size();
    decoded_chars_ += count_chars(decoded);
  }
  given_bytes_ += text.size();
  std::vector<ListedToken> out;
  while (!waiting_.empty() && waiting_.front().begin < given_bytes_) {
    out.push_back(std::move(waiting_.front().token));
    waiting_.pop_front();
  }
  return out;
}

std::vector<ListedToken> TokenTrail::finish() {
  std::vector<ListedToken> out;
  for (Waiting& waiting : waiting_) out.push_back(std::move(waiting.token));
  waiting_.clear();
  return out;
}

void append_json(std::string& out, std::string_view text) {
  out += boost::json::serialize(boost::json::string_view(text.data(), text.size()));
}

void append_json(std::string& out, float logprob) {
  if (!(logprob > -std::numeric_limits<float>::infinity())) {
    out += "-9999.0";
    return;
  }
  const std::size_t begin = out.size();
  fmt::format_to(std::back_inserter(out), "{}", logprob);
  // Python's type of a number depends on whether it looks like an integer.
  if (out.find_first_of(".e", begin) == std::string::npos) out += ".0";
}

std::string token_list_json(std::span<const ListedToken> tokens, const Tokenizer& tokenizer) {
  std::string out = "[";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const SampledToken& token = tokens[i].sampled;
    if (i > 0) out += ',';
    append_token(out, token.token, token.logprob, tokenizer);
    out += R"(,"top_logprobs":[)";
    for (std::size_t k = 0; k < token.top.size(); ++k) {
      if (k > 0) out += ',';
      append_token(out, token.top[k].token, token.top[k].logprob, tokenizer);
      out += '}';
    }
    out += "]}";
  }
  return out + "]";
}

std::string completion_logprobs_json(std::span<const ListedToken> tokens, std::size_t offset,
                                     bool with_top, const Tokenizer& tokenizer) {
  std::string out = "{";
  append_array(out, "tokens", tokens, [&](const ListedToken& token) {
    append_json(out, replace_invalid_utf8(token_bytes(tokenizer, token.sampled.token)));
  });
  out += ',';
  append_array(out, "token_logprobs", tokens,
               [&](const ListedToken& token) { append_json(out, token.sampled.logprob); });
  out += ',';
  if (with_top) {
    append_array(out, "top_logprobs", tokens, [&](const ListedToken& token) {
      append_alternatives(out, token.sampled, tokenizer);
    });
  } else {
    out += R"("top_logprobs":null)";
  }
  out += ',';
  append_array(out, "text_offset", tokens, [&](const ListedToken& token) {
    fmt::format_to(std::back_inserter(out), "{}", offset + token.text_offset);
  });
  return out + "}";
}

}  // namespace quire::openai
