#include "serve/openai/prepare.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <set>
#include <string>

#include "serve/openai/listings.h"
#include "serve/openai/openai_testing.h"

namespace quire::openai {
namespace {

namespace json = boost::json;
using testing::at;
using testing::ByteTokenizer;
using testing::spell;
using testing::TestModel;

const Caller kCaller{.tenant = "key1", .random_seed = 77};

ApiResult<PreparedRequest> chat(const TestModel& model, const std::string& rest,
                                const std::string& content = "hi") {
  const auto request =
      parse_chat(R"({"messages":[{"role":"user","content":")" + content + "\"}]" + rest + "}", {});
  EXPECT_TRUE(request) << request.error().message;
  return prepare(*request, model.served, kCaller);
}

ApiResult<PreparedRequest> completion(const TestModel& model, const std::string& members) {
  const auto request = parse_completion("{" + members + "}", {});
  EXPECT_TRUE(request) << request.error().message;
  return prepare(*request, model.served, kCaller);
}

TEST(Prepare, AChatIsWhatTheTemplateMakesOfIt) {
  const TestModel model;
  const auto prepared = chat(model, "");
  ASSERT_TRUE(prepared) << prepared.error().message;
  ASSERT_EQ(prepared->requests.size(), 1u);
  EXPECT_EQ(spell(prepared->requests[0].prompt), "<s>[user:hi]<|end|>[assistant:");
  EXPECT_EQ(prepared->requests[0].prompt.front(), ByteTokenizer::kBos);
  EXPECT_TRUE(prepared->generates);
  EXPECT_EQ(prepared->shape.model, "tiny");
  EXPECT_EQ(prepared->shape.fingerprint, "fp_1");
}

TEST(Prepare, FieldsReachTheService) {
  const TestModel model;
  const auto prepared = chat(model, R"(,"n":2,"best_of":3,"stop":"x","seed":5,"priority":-1,
      "max_tokens":9,"temperature":0.5,"ignore_eos":true,"cache_salt":"pepper","logprobs":true,
      "top_logprobs":4,"logit_bias":{"65":3})");
  ASSERT_TRUE(prepared) << prepared.error().message;
  const ServiceRequest& request = prepared->requests[0];
  EXPECT_EQ(request.n, 2u);
  EXPECT_EQ(request.best_of, 3u);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(request.sampling.seed, 5u);
  EXPECT_EQ(request.priority, -1);
  EXPECT_EQ(request.max_tokens, 9u);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_TRUE(request.ignore_eos);
  EXPECT_EQ(request.sampling.n_logprobs, 4u);
  EXPECT_EQ(request.tenant, "key1");
  EXPECT_EQ(request.cache_namespace, cache_namespace("key1", "pepper"));
  EXPECT_TRUE(Sampler::create(request.sampling, model.tokenizer.vocab_size()));
  EXPECT_EQ(chat(model, "")->requests[0].sampling.seed, 77u);
}

TEST(Prepare, NoTwoCallersShareACacheByTheirWords) {
  std::set<std::string> names;
  for (const char* tenant : {"", "a", "a\n", "a\n1", "ab", "1\nb"})
    for (const char* salt : {"", "a", "b", "\n", "1\nb", "ab\n2\n", "\n1\nb"})
      EXPECT_TRUE(names.insert(cache_namespace(tenant, salt)).second) << tenant << '|' << salt;
}

TEST(Prepare, APromptThatLeavesNoRoomIsRefusedWithBothCounts) {
  // <s>[user:…]<|end|>[assistant: has 20 tokens around the content.
  constexpr std::size_t kAround = 20;
  const TestModel model(100);
  const auto prepared = [&](std::size_t n_tokens, const std::string& rest) {
    return chat(model, rest, std::string(n_tokens - kAround, 'x'));
  };
  const auto fits = prepared(99, "");
  ASSERT_TRUE(fits);
  EXPECT_EQ(fits->requests[0].prompt.size(), 99u);
  EXPECT_EQ(fits->requests[0].max_tokens, 1u);
  for (const std::size_t n : {100, 101, 500}) {
    for (const char* rest : {"", ",\"stream\":true", ",\"max_tokens\":1"}) {
      const auto over = prepared(n, rest);
      ASSERT_FALSE(over) << n;
      EXPECT_EQ(over.error().http_status, 400);
      EXPECT_EQ(over.error().code, "context_length_exceeded");
      EXPECT_EQ(over.error().param, "messages");
      EXPECT_NE(over.error().message.find("100 tokens"), std::string::npos);
      EXPECT_NE(over.error().message.find(fmt::format("{} tokens", n)), std::string::npos);
    }
  }
  // What fits with less room than was asked for gets the room.
  EXPECT_EQ(prepared(90, ",\"max_tokens\":10")->requests[0].max_tokens, 10u);
  EXPECT_EQ(prepared(90, ",\"max_tokens\":11")->requests[0].max_tokens, 10u);
  EXPECT_EQ(prepared(90, ",\"max_tokens\":1000000")->requests[0].max_tokens, 10u);
}

TEST(Prepare, CompletionsTakeTextAsTextAndIdsAsIds) {
  const TestModel model;
  const auto text = completion(model, R"("prompt":"<s>a<|end|>")");
  ASSERT_TRUE(text);
  // One BOS, and the words of the prompt are spelled, not special.
  EXPECT_EQ(text->requests[0].prompt.size(), 1u + std::string("<s>a<|end|>").size());
  EXPECT_EQ(text->requests[0].prompt.front(), ByteTokenizer::kBos);
  EXPECT_EQ(text->requests[0].prompt[1], '<');
  const auto ids = completion(model, R"("prompt":[65,257])");
  ASSERT_TRUE(ids);
  EXPECT_EQ(ids->requests[0].prompt, (std::vector<TokenId>{65, 257}));

  const auto beyond = completion(model, R"("prompt":[65,258])");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().param, "prompt");
  const auto second = completion(model, R"("prompt":[[65],[258]])");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().param, "prompt[1]");
}

TEST(Prepare, NothingIsAPromptOnlyIfThereIsABos) {
  const TestModel with_bos;
  ASSERT_TRUE(completion(with_bos, R"("prompt":"")"));
  EXPECT_EQ(completion(with_bos, R"("prompt":"")")->requests[0].prompt.size(), 1u);
  const TestModel without(1000, /*add_bos=*/false);
  const auto refused = completion(without, R"("prompt":"")");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().http_status, 400);
  EXPECT_EQ(refused.error().param, "prompt");
}

TEST(Prepare, EachPromptIsARequestWithItsEcho) {
  const TestModel model;
  const auto prepared =
      completion(model, R"("prompt":["aé",[98,256,99]],"echo":true,"n":2,"max_tokens":4)");
  ASSERT_TRUE(prepared);
  ASSERT_EQ(prepared->requests.size(), 2u);
  EXPECT_EQ(prepared->shape.echoes, (std::vector<std::string>{"aé", "bc"}));
  EXPECT_EQ(prepared->shape.n, 2u);
  EXPECT_EQ(completion(model, R"("prompt":["a","b"])")->shape.echoes,
            (std::vector<std::string>{"", ""}));
  EXPECT_FALSE(completion(model, R"("prompt":"a","echo":true,"max_tokens":0)")->generates);
}

TEST(Prepare, AModelWithoutATemplateCannotChat) {
  TestModel model;
  model.chat_template = std::optional<ChatTemplate>();
  const auto none = chat(model, "");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().http_status, 400);
  EXPECT_EQ(none.error().param, "messages");
  EXPECT_NE(none.error().message.find("no chat template"), std::string::npos);
  model.chat_template = fail(ErrorCode::kInvalidData, "line 3 is odd");
  EXPECT_NE(chat(model, "").error().message.find("line 3 is odd"), std::string::npos);
  EXPECT_TRUE(completion(model, R"("prompt":"a")"));
}

TEST(Prepare, WhatTheTemplateIsNotGivenIsRefused) {
  const TestModel model;
  RequestOptions options;
  options.supports_constraints = true;
  const auto param = [&](const std::string& members) {
    const auto request = parse_chat("{" + members + "}", options);
    EXPECT_TRUE(request) << request.error().message;
    const auto prepared = prepare(*request, model.served, kCaller);
    return prepared ? "" : prepared.error().param;
  };
  const std::string hello = R"("messages":[{"role":"user","content":"hi"}])";
  EXPECT_EQ(param(hello + R"(,"tools":[{"type":"function","function":{"name":"f"}}])"), "tools");
  EXPECT_EQ(param(R"("messages":[{"role":"assistant","tool_calls":[{"id":"c",
                     "function":{"name":"f","arguments":"{}"}}]}])"),
            "messages[0]");
  EXPECT_EQ(param(R"("messages":[{"role":"tool","tool_call_id":"c","content":"7"}])"),
            "messages[0]");
  EXPECT_EQ(param(hello + R"(,"regex":"a+")"), "");
}

TEST(Prepare, AConstraintIsHandedOn) {
  const TestModel model;
  RequestOptions options;
  options.supports_constraints = true;
  const auto chat =
      prepare(*parse_chat(R"({"messages":[{"role":"user","content":"hi"}],"regex":"a+"})", options),
              model.served, kCaller);
  const auto text = prepare(*parse_completion(R"({"prompt":"hi","grammar":"start: A"})", options),
                            model.served, kCaller);
  const auto response = prepare(
      *parse_responses(R"({"input":"hi","text":{"format":{"type":"json_object"}}})", options),
      model.served, kCaller);
  ASSERT_TRUE(chat && text && response);
  EXPECT_EQ(chat->constraint.kind, Constraint::Kind::kRegex);
  EXPECT_EQ(text->constraint.kind, Constraint::Kind::kLark);
  EXPECT_EQ(response->constraint.kind, Constraint::Kind::kJsonObject);
  EXPECT_EQ(at(json::parse(response->shape.settings), "text.format.type"), "json_object");
}

TEST(Prepare, AResponseSaysWhatItWasMadeWith) {
  const TestModel model;
  const auto prepared = prepare(
      *parse_responses(
          R"({"input":"hi","instructions":"brief","temperature":0.5,"max_output_tokens":7})", {}),
      model.served, kCaller);
  ASSERT_TRUE(prepared);
  EXPECT_EQ(spell(prepared->requests[0].prompt),
            "<s>[system:brief]<|end|>[user:hi]<|end|>[assistant:");
  const auto settings = json::parse(prepared->shape.settings);
  EXPECT_EQ(at(settings, "instructions"), "brief");
  EXPECT_EQ(at(settings, "temperature"), 0.5);
  EXPECT_EQ(at(settings, "max_output_tokens"), 7);
}

TEST(Prepare, OnlyTheServedModelAnswers) {
  const TestModel model;
  EXPECT_TRUE(chat(model, R"(,"model":"tiny")"));
  EXPECT_TRUE(chat(model, R"(,"model":"tiny-alias")"));
  const auto other = chat(model, R"(,"model":"gpt-4o")");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().http_status, 404);
  EXPECT_EQ(other.error().code, "model_not_found");
  EXPECT_EQ(other.error().param, "model");
}

TEST(Prepare, ABiasIsForATokenThatExists) {
  const TestModel model;
  EXPECT_TRUE(chat(model, R"(,"logit_bias":{"257":1})"));
  const auto beyond = chat(model, R"(,"logit_bias":{"258":1})");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().param, "logit_bias");
}

TEST(Prepare, EmbeddingsFillTheContextAtMost) {
  TestModel model(5);
  const auto inputs = [&](const std::string& members) {
    return prepare(*parse_embedding("{" + members + "}", {}), model.served);
  };
  const auto good = inputs(R"("input":["abcd","a",[1,2,3,4,5]],"dimensions":3)");
  ASSERT_TRUE(good) << good.error().message;
  EXPECT_EQ(good->at(0).size(), 5u);
  EXPECT_EQ(inputs(R"("input":["a","abcde"])").error().code, "context_length_exceeded");
  EXPECT_EQ(inputs(R"("input":["a","abcde"])").error().param, "input[1]");
  EXPECT_EQ(inputs(R"("input":"a","dimensions":2)").error().param, "dimensions");
  model.served.has_embeddings = false;
  EXPECT_EQ(inputs(R"("input":"a")").error().http_status, 400);
}

TEST(Prepare, TokensAndBack) {
  const TestModel model;
  const auto ids = [&](const std::string& members) {
    const auto text = tokenize(*parse_tokenize("{" + members + "}", {}), model.served);
    EXPECT_TRUE(text);
    return json::parse(text.value_or("null"));
  };
  EXPECT_EQ(ids(R"("prompt":"a<s>")"),
            json::parse(R"({"count":5,"max_model_len":1000,"tokens":[256,97,60,115,62],
                            "token_strs":null})"));
  EXPECT_EQ(
      at(ids(R"("prompt":"é","add_special_tokens":false,"return_token_strs":true)"), "token_strs"),
      json::parse("[\"\xEF\xBF\xBD\",\"\xEF\xBF\xBD\"]"));
  EXPECT_EQ(at(ids(R"("prompt":"","add_special_tokens":false)"), "count"), 0);
  EXPECT_EQ(at(ids(R"("messages":[{"role":"user","content":"hi"}])"), "count"), 22);
  EXPECT_EQ(at(ids(R"("messages":[{"role":"user","content":"hi"}],"add_generation_prompt":false)"),
               "count"),
            11);

  const auto text =
      detokenize(*parse_detokenize(R"({"tokens":[256,104,195,169,257]})", {}), model.served);
  ASSERT_TRUE(text);
  EXPECT_EQ(json::parse(*text), json::parse("{\"prompt\":\"<s>hé<|end|>\"}"));
  const auto bad = detokenize(*parse_detokenize(R"({"tokens":[258]})", {}), model.served);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().param, "tokens");
}

TEST(Listings, ModelsAreListedByTheirNames) {
  const TestModel model;
  const auto list = json::parse(models_json(model.served));
  EXPECT_EQ(at(list, "object"), "list");
  EXPECT_EQ(at(list, "data.0"), json::parse(R"({"id":"tiny","object":"model","created":1700000000,
                                               "owned_by":"quire","max_model_len":1000})"));
  EXPECT_EQ(at(list, "data.1.id"), "tiny-alias");
  EXPECT_EQ(at(json::parse(*model_json("tiny-alias", model.served)), "id"), "tiny-alias");
  EXPECT_EQ(model_json("other", model.served).error().http_status, 404);
}

TEST(Listings, EmbeddingsAreNumbersOrBase64) {
  const TestModel model;
  const std::vector<std::vector<float>> vectors = {{1.0f, -0.5f, 0.0f}, {2.0f}};
  const auto numbers = json::parse(embeddings_json(vectors, false, 7, model.served));
  EXPECT_EQ(at(numbers, "data.0.embedding"), json::parse("[1.0,-0.5,0.0]"));
  EXPECT_EQ(at(numbers, "data.1.index"), 1);
  EXPECT_EQ(at(numbers, "usage"), json::parse(R"({"prompt_tokens":7,"total_tokens":7})"));
  // Python: base64.b64encode(numpy.array([1, -0.5, 0], "<f4")), and of [2].
  const auto base64 = json::parse(embeddings_json(vectors, true, 7, model.served));
  EXPECT_EQ(at(base64, "data.0.embedding"), "AACAPwAAAL8AAAAA");
  EXPECT_EQ(at(base64, "data.1.embedding"), "AAAAQA==");
}

}  // namespace
}  // namespace quire::openai
