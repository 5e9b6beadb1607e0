#include "serve/openai/prepare.h"

#include <algorithm>
#include <utility>

namespace quire::openai {
namespace {

std::string decode(const std::vector<TokenId>& tokens, const Tokenizer& tokenizer) {
  StreamDecoder decoder(tokenizer);
  std::string out;
  for (const TokenId token : tokens) out += decoder.push(token);
  return out + decoder.finish();
}

ApiResult<void> check_logit_bias(const SamplerParams& sampling, const Tokenizer& tokenizer) {
  for (const auto& [token, bias] : sampling.logit_bias) {
    if (static_cast<std::size_t>(token) >= tokenizer.vocab_size()) {
      return fail(invalid_field("logit_bias", "invalid_value",
                                "'logit_bias' names token {}, but the vocabulary has tokens 0 to "
                                "{}.",
                                token, tokenizer.vocab_size() - 1));
    }
  }
  return {};
}

// `what`: the field that would have to be shorter.
ApiResult<ServiceRequest> to_service(const GenerationFields& fields, std::vector<TokenId> prompt,
                                     std::string_view what, const ServedModel& model,
                                     const Caller& caller) {
  if (prompt.size() >= model.context)
    return fail(context_exceeded(what, prompt.size(), model.context));
  const std::size_t room = model.context - prompt.size();
  ServiceRequest out;
  out.max_tokens = std::min(fields.max_tokens.value_or(room), room);
  out.prompt = std::move(prompt);
  out.sampling = fields.sampling;
  out.sampling.seed = fields.seed.value_or(caller.random_seed);
  // No more alternatives than there are tokens.
  out.sampling.n_logprobs =
      std::min(out.sampling.n_logprobs, static_cast<std::uint32_t>(model.tokenizer->vocab_size()));
  out.stop = fields.stop;
  out.ignore_eos = fields.ignore_eos;
  out.n = fields.n;
  out.best_of = fields.best_of;
  out.priority = fields.priority;
  out.tenant = caller.tenant;
  out.cache_namespace = cache_namespace(caller.tenant, fields.cache_salt);
  return out;
}

ResponseShape make_shape(Endpoint endpoint, const GenerationFields& fields,
                         const ServedModel& model) {
  ResponseShape shape;
  shape.endpoint = endpoint;
  shape.stream = fields.stream;
  shape.include_usage = fields.include_usage;
  shape.logprobs = fields.sampling.logprobs;
  shape.n_logprobs = fields.sampling.n_logprobs;
  shape.ignore_eos = fields.ignore_eos;
  shape.n = fields.n;
  shape.echoes.resize(1);
  shape.model = model.names.empty() ? std::string() : model.names.front();
  shape.fingerprint = model.fingerprint;
  return shape;
}

}  // namespace

std::string cache_namespace(std::string_view tenant, std::string_view salt) {
  return salt.empty() ? std::string(tenant)
                      : fmt::format("{}\n{}\n{}", tenant, tenant.size(), salt);
}

ApiResult<PreparedRequest> prepare_chat(Endpoint endpoint, const std::string& name,
                                        const std::vector<Message>& messages,
                                        const GenerationFields& fields, const ServedModel& model,
                                        const Caller& caller) {
  const std::string_view param = endpoint == Endpoint::kChat ? "messages" : "input";
  QUIRE_RETURN_IF_ERROR(check_model(name, model));
  QUIRE_RETURN_IF_ERROR(check_logit_bias(fields.sampling, *model.tokenizer));
  QUIRE_ASSIGN_OR_RETURN(auto prompt, encode_messages(messages, true, param, model));
  if (prompt.empty())
    return fail(invalid_field(std::string(param), "invalid_value",
                              "The model's template makes an empty prompt of '{}'.", param));
  QUIRE_ASSIGN_OR_RETURN(auto request, to_service(fields, std::move(prompt), param, model, caller));
  PreparedRequest out;
  out.requests.push_back(std::move(request));
  out.shape = make_shape(endpoint, fields, model);
  return out;
}

ApiResult<PreparedRequest> prepare(const ChatRequest& request, const ServedModel& model,
                                   const Caller& caller) {
  if (!request.structure.tools.empty())
    return fail(invalid_field("tools", "unsupported_value", "The model is not told of tools."));
  QUIRE_ASSIGN_OR_RETURN(auto out, prepare_chat(Endpoint::kChat, request.model, request.messages,
                                                request.generation, model, caller));
  out.constraint = request.structure.constraint;
  return out;
}

ApiResult<PreparedRequest> prepare(const CompletionRequest& request, const ServedModel& model,
                                   const Caller& caller) {
  QUIRE_RETURN_IF_ERROR(check_model(request.model, model));
  QUIRE_RETURN_IF_ERROR(check_logit_bias(request.generation.sampling, *model.tokenizer));
  PreparedRequest out;
  out.shape = make_shape(Endpoint::kCompletions, request.generation, model);
  out.shape.echoes.clear();
  out.constraint = request.constraint;
  out.generates = request.generation.max_tokens != 0;
  for (std::size_t i = 0; i < request.prompts.size(); ++i) {
    const PromptInput& input = request.prompts[i];
    const std::string param = request.prompts.size() == 1 ? "prompt" : item_path("prompt", i);
    QUIRE_ASSIGN_OR_RETURN(auto prompt, encode_input(input, param, model));
    std::string echo;
    if (request.echo) {
      const auto* text = std::get_if<std::string>(&input);
      echo = text ? *text : decode(prompt, *model.tokenizer);
    }
    QUIRE_ASSIGN_OR_RETURN(auto service,
                           to_service(request.generation, std::move(prompt), param, model, caller));
    out.shape.echoes.push_back(std::move(echo));
    out.requests.push_back(std::move(service));
  }
  return out;
}

ApiResult<std::vector<std::vector<TokenId>>> prepare(const EmbeddingRequest& request,
                                                     const ServedModel& model) {
  QUIRE_RETURN_IF_ERROR(check_model(request.model, model));
  if (!model.has_embeddings)
    return fail(invalid_field("model", "unsupported_value", "This server makes no embeddings."));
  if (request.dimensions && *request.dimensions != model.n_embd) {
    return fail(invalid_field("dimensions", "unsupported_value",
                              "'dimensions' is {}, but this model's embeddings have {} and are not "
                              "cut.",
                              *request.dimensions, model.n_embd));
  }
  std::vector<std::vector<TokenId>> out;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const std::string param = request.inputs.size() == 1 ? "input" : item_path("input", i);
    QUIRE_ASSIGN_OR_RETURN(auto tokens, encode_input(request.inputs[i], param, model));
    if (tokens.size() > model.context)
      return fail(invalid_field(param, "context_length_exceeded",
                                "This model's maximum context length is {} tokens. However, your "
                                "{} resulted in {} tokens.",
                                model.context, param, tokens.size()));
    out.push_back(std::move(tokens));
  }
  return out;
}

}  // namespace quire::openai
