#pragma once
// From parsed requests to what the service runs.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/service/service.h"
#include "serve/openai/requests.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quire::openai {

/// The model as requests see it. What it points to must outlive it; safe to share between threads.
struct ServedModel {
  std::vector<std::string> names;  // what "model" may say; the first is what answers say
  const Tokenizer* tokenizer = nullptr;
  const Result<std::optional<ChatTemplate>>* chat_template = nullptr;
  std::size_t context = 0;   // tokens of prompt and answer together
  std::size_t n_embd = 0;    // floats of an embedding
  std::int64_t created = 0;  // Unix time of the model file
  std::string fingerprint;   // changes when the same seed may answer otherwise
  bool has_embeddings = false;
};

/// Who asks.
struct Caller {
  std::string tenant;             // from the key that was checked; empty without keys
  std::uint64_t random_seed = 0;  // for a request that names none
};

enum class Endpoint : std::uint8_t { kChat, kCompletions, kResponses };

/// What a response looks like, apart from the answer.
struct ResponseShape {
  Endpoint endpoint = Endpoint::kChat;
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  std::uint32_t n_logprobs = 0;
  bool ignore_eos = false;
  std::size_t n = 1;                // choices of each prompt
  std::vector<std::string> echoes;  // of each prompt: text in front of every choice
  std::string model;
  std::string fingerprint;
  /// Of the responses endpoint: the request's own words, as a JSON object's text.
  std::string settings;
};

struct PreparedRequest {
  std::vector<ServiceRequest> requests;  // one for each prompt
  ResponseShape shape;
  Constraint constraint;  // of every choice; whoever submits the requests has it enforced
  /// False: max_tokens was 0, and the answer is the prompt. The requests are not to be submitted
  /// (to the service 0 means no limit); answer_without_model() writes the response.
  bool generates = true;
};

/// Refused with both counts: a prompt that leaves no room to answer. A prompt that fits with less
/// room than max_tokens has its max_tokens cut to the room. Tools, and messages with their calls,
/// are refused: the template is not given them.
ApiResult<PreparedRequest> prepare(const ChatRequest& request, const ServedModel& model,
                                   const Caller& caller);
ApiResult<PreparedRequest> prepare(const CompletionRequest& request, const ServedModel& model,
                                   const Caller& caller);
ApiResult<PreparedRequest> prepare(const ResponsesRequest& request, const ServedModel& model,
                                   const Caller& caller);

/// Token ids of each input, none empty, each at most as long as the context.
ApiResult<std::vector<std::vector<TokenId>>> prepare(const EmbeddingRequest& request,
                                                     const ServedModel& model);

/// The whole response of /tokenize: {"count", "max_model_len", "tokens", "token_strs"}.
ApiResult<std::string> tokenize(const TokenizeRequest& request, const ServedModel& model);
/// The whole response of /detokenize: {"prompt"}.
ApiResult<std::string> detokenize(const DetokenizeRequest& request, const ServedModel& model);

/// The namespace of cached prefixes: no two pairs have the same.
std::string cache_namespace(std::string_view tenant, std::string_view salt);

// For the functions above.

ApiResult<PreparedRequest> prepare_chat(Endpoint endpoint, const std::string& name,
                                        const std::vector<Message>& messages,
                                        const GenerationFields& fields, const ServedModel& model,
                                        const Caller& caller);
ApiResult<void> check_model(const std::string& name, const ServedModel& model);
ApiResult<std::vector<TokenId>> encode_messages(const std::vector<Message>& messages,
                                                bool add_generation_prompt, std::string_view param,
                                                const ServedModel& model);
/// Text with BOS (if the model wants one) and no special tokens; ids as they are, if they exist.
ApiResult<std::vector<TokenId>> encode_input(const PromptInput& input, const std::string& param,
                                             const ServedModel& model);

}  // namespace quire::openai
