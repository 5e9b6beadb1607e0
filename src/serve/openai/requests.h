#pragma once
// Bodies of requests, read and checked in every field, before a model has been asked anything.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "serve/openai/constraint.h"
#include "serve/openai/generation_fields.h"
#include "serve/openai/limits.h"
#include "serve/openai/messages.h"

namespace quire::openai {

/// Text, or token ids that are taken as they are (no BOS is added).
using PromptInput = std::variant<std::string, std::vector<TokenId>>;

struct ChatRequest {
  std::string model;  // empty: the one that is served
  std::vector<Message> messages;
  GenerationFields generation;
  StructureFields structure;
};

struct CompletionRequest {
  std::string model;
  std::vector<PromptInput> prompts;
  bool echo = false;  // the prompt's text in front of the answer's
  GenerationFields generation;
  Constraint constraint;
};

struct EmbeddingRequest {
  std::string model;
  std::vector<PromptInput> inputs;
  bool base64 = false;
  std::optional<std::size_t> dimensions;
};

struct ResponsesRequest {
  std::string model;
  std::vector<Message> messages;  // instructions first
  std::optional<std::string> instructions;
  GenerationFields generation;
  Constraint constraint;
};

struct TokenizeRequest {
  std::string model;
  std::variant<std::string, std::vector<Message>> input;  // "prompt" or "messages"
  bool add_special_tokens = true;                         // BOS, of a prompt
  bool add_generation_prompt = true;                      // of messages
  bool return_token_strs = false;
};

struct DetokenizeRequest {
  std::string model;
  std::vector<TokenId> tokens;
};

ApiResult<ChatRequest> parse_chat(std::string_view body, const RequestOptions& options);
ApiResult<CompletionRequest> parse_completion(std::string_view body, const RequestOptions& options);
ApiResult<EmbeddingRequest> parse_embedding(std::string_view body, const RequestOptions& options);
ApiResult<ResponsesRequest> parse_responses(std::string_view body, const RequestOptions& options);
ApiResult<TokenizeRequest> parse_tokenize(std::string_view body, const RequestOptions& options);
ApiResult<DetokenizeRequest> parse_detokenize(std::string_view body, const RequestOptions& options);

// For the parsers.

/// The text of field "model"; empty if absent.
std::string read_model(FieldReader& fields);
/// A string, an array of strings, an array of token ids, or an array of arrays of them.
std::vector<PromptInput> read_prompts(FieldReader& fields, std::string_view name,
                                      std::size_t max_prompts);
std::vector<TokenId> read_tokens(const boost::json::array& items, const std::string& path,
                                 FirstError& error);

}  // namespace quire::openai
