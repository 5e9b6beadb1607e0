#include "serve/openai/response_writer.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "serve/openai/openai_testing.h"

namespace quire::openai {
namespace {

namespace json = boost::json;
using testing::at;
using testing::ByteTokenizer;
using testing::events;
using testing::sampled;
using testing::Sent;

const ByteTokenizer kTokenizer;
const ServiceUsage kUsage{.prompt_tokens = 7, .cached_tokens = 4, .completion_tokens = 3};

ResponseShape shape(Endpoint endpoint, bool stream) {
  ResponseShape out;
  out.endpoint = endpoint;
  out.stream = stream;
  out.echoes = {""};
  out.model = "tiny";
  out.fingerprint = "fp_1";
  out.settings =
      R"({"instructions":null,"parallel_tool_calls":true,"tool_choice":"auto","tools":[]})";
  return out;
}

std::shared_ptr<ResponseWriter> writer(const ResponseShape& shape, Sent& sent) {
  return make_writer(shape, {.id = "id-1", .created = 1700000000}, kTokenizer, sent.output());
}

// A step of one choice: the token's byte, and the text that came with it.
void step(ServiceSink& sink, std::size_t choice, TokenId token, std::string_view text,
          std::vector<TokenLogprob> top = {}) {
  const SampledToken one = sampled(token, -0.5f, std::move(top));
  sink.on_delta({.choice = choice, .text = text, .tokens = std::span(&one, 1)});
}

json::value parsed(const std::vector<std::string>& all, std::size_t i) {
  return i < all.size() ? json::parse(all[i]) : json::value();
}

TEST(ChatStream, IsTheSequenceThatOpenAiSends) {
  Sent sent;
  const auto w = writer(shape(Endpoint::kChat, true), sent);
  const auto sink = make_sinks(w).at(0);
  step(*sink, 0, 'h', "h");
  step(*sink, 0, 0xC3, "");  // nothing to tell yet
  step(*sink, 0, 0xA9, "é");
  sink->on_finish(0, FinishReason::kStop);
  sink->on_done(kUsage);

  const std::string head =
      R"({"id":"id-1","object":"chat.completion.chunk","created":1700000000,"model":"tiny",)"
      R"("system_fingerprint":"fp_1","choices":[{"index":0,"delta":)";
  const auto chunk = [&](const std::string& delta, const std::string& reason) {
    return "data: " + head + delta + R"(,"logprobs":null,"finish_reason":)" + reason + "}]}\n\n";
  };
  EXPECT_EQ(sent.bytes(), chunk(R"({"role":"assistant","content":"","refusal":null})", "null") +
                              chunk(R"({"content":"h"})", "null") +
                              chunk(R"({"content":"é"})", "null") + chunk("{}", "\"stop\"") +
                              "data: [DONE]\n\n");
  for (std::size_t i = 0; i < sent.parts.size(); ++i) {
    EXPECT_EQ(sent.parts[i].http_status, 200);
    EXPECT_TRUE(sent.parts[i].event_stream);
    EXPECT_EQ(sent.parts[i].last, i + 1 == sent.parts.size());
  }
}

TEST(ChatStream, UsageIsTheLastChunkIfAskedFor) {
  Sent sent;
  ResponseShape with_usage = shape(Endpoint::kChat, true);
  with_usage.include_usage = true;
  const auto sink = make_sinks(writer(with_usage, sent)).at(0);
  step(*sink, 0, 'h', "h");
  sink->on_finish(0, FinishReason::kLength);
  sink->on_done(kUsage);
  const auto all = events(sent.bytes());
  ASSERT_EQ(all.size(), 5u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(at(parsed(all, i), "usage"), nullptr);
  EXPECT_EQ(at(parsed(all, 2), "choices.0.finish_reason"), "length");
  EXPECT_EQ(at(parsed(all, 3), "choices"), json::array());
  EXPECT_EQ(at(parsed(all, 3), "usage"),
            json::parse(R"({"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,
                            "prompt_tokens_details":{"cached_tokens":4}})"));
  EXPECT_EQ(all[4], "[DONE]");
}

TEST(ChatStream, EachChoiceHasItsRoleAndItsReason) {
  Sent sent;
  ResponseShape two = shape(Endpoint::kChat, true);
  two.n = 2;
  const auto sink = make_sinks(writer(two, sent)).at(0);
  step(*sink, 1, 'b', "b");
  step(*sink, 0, 'a', "a");
  sink->on_finish(1, FinishReason::kStop);
  sink->on_finish(0, FinishReason::kLength);
  sink->on_done(kUsage);
  const auto all = events(sent.bytes());
  ASSERT_EQ(all.size(), 7u);
  std::vector<std::string> seen[2];
  for (std::size_t i = 0; i < 6; ++i) {
    const json::value choice = at(parsed(all, i), "choices.0");
    const auto index = at(choice, "index").to_number<std::size_t>();
    seen[index].push_back(json::serialize(at(choice, "delta")) +
                          json::serialize(at(choice, "finish_reason")));
  }
  const std::string role = R"({"role":"assistant","content":"","refusal":null}null)";
  EXPECT_EQ(seen[0], (std::vector<std::string>{role, R"({"content":"a"}null)", R"({}"length")"}));
  EXPECT_EQ(seen[1], (std::vector<std::string>{role, R"({"content":"b"}null)", R"({}"stop")"}));
}

TEST(ChatStream, AnAnswerOfNothingHasARoleAndAReason) {
  Sent sent;
  const auto sink = make_sinks(writer(shape(Endpoint::kChat, true), sent)).at(0);
  sink->on_finish(0, FinishReason::kStop);
  sink->on_done(kUsage);
  EXPECT_EQ(events(sent.bytes()).size(), 3u);
}

TEST(Chat, OneObjectHasEverything) {
  Sent sent;
  ResponseShape with_logprobs = shape(Endpoint::kChat, false);
  with_logprobs.logprobs = true;
  with_logprobs.n_logprobs = 1;
  const auto sink = make_sinks(writer(with_logprobs, sent)).at(0);
  step(*sink, 0, 'h', "h", {{'H', -0.25f}});
  sink->on_finish(0, FinishReason::kStop);
  EXPECT_TRUE(sent.parts.empty());
  sink->on_done(kUsage);
  ASSERT_EQ(sent.parts.size(), 1u);
  EXPECT_TRUE(sent.parts[0].last);
  EXPECT_FALSE(sent.parts[0].event_stream);
  EXPECT_EQ(json::parse(sent.bytes()), json::parse(R"({"id":"id-1","object":"chat.completion",
      "created":1700000000,"model":"tiny","system_fingerprint":"fp_1","choices":[{"index":0,
      "message":{"role":"assistant","content":"h","refusal":null},"logprobs":{"content":[
      {"token":"h","logprob":-0.5,"bytes":[104],"top_logprobs":[
      {"token":"H","logprob":-0.25,"bytes":[72]}]}],"refusal":null},"finish_reason":"stop"}],
      "usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,
      "prompt_tokens_details":{"cached_tokens":4}}})"));
}

TEST(Completions, ChoicesAreCountedOverPromptsAndUsageIsTheSum) {
  for (const bool stream : {false, true}) {
    Sent sent;
    ResponseShape two = shape(Endpoint::kCompletions, stream);
    two.n = 2;
    two.echoes = {"P", "Qé"};
    two.include_usage = true;
    two.logprobs = true;
    const auto sinks = make_sinks(writer(two, sent));
    ASSERT_EQ(sinks.size(), 2u);
    step(*sinks[1], 0, 'c', "c");
    step(*sinks[0], 1, 'b', "b");
    sinks[1]->on_finish(0, FinishReason::kStop);
    sinks[1]->on_finish(1, FinishReason::kStop);
    sinks[1]->on_done(kUsage);
    EXPECT_FALSE(!sent.parts.empty() && sent.parts.back().last);
    sinks[0]->on_finish(0, FinishReason::kLength);
    sinks[0]->on_finish(1, FinishReason::kLength);
    sinks[0]->on_done(kUsage);
    ASSERT_TRUE(sent.parts.back().last);

    std::vector<std::string> texts(4), reasons(4), offsets(4);
    json::value usage;
    const auto read = [&](const json::value& response) {
      EXPECT_EQ(at(response, "object"), "text_completion");
      const json::value choices = at(response, "choices");
      for (const json::value& choice : choices.as_array()) {
        const auto i = at(choice, "index").to_number<std::size_t>();
        texts.at(i) += json::value_to<std::string>(at(choice, "text"));
        const json::value reason = at(choice, "finish_reason");
        if (reason.is_string()) reasons.at(i) += json::value_to<std::string>(reason);
        if (at(choice, "logprobs").is_object())
          offsets.at(i) += json::serialize(at(choice, "logprobs.text_offset"));
      }
      if (at(response, "usage").is_object()) usage = at(response, "usage");
    };
    if (stream) {
      const auto all = events(sent.bytes());
      for (std::size_t i = 0; i + 1 < all.size(); ++i) read(json::parse(all[i]));
      EXPECT_EQ(all.back(), "[DONE]");
    } else {
      read(json::parse(sent.bytes()));
    }
    EXPECT_EQ(texts, (std::vector<std::string>{"P", "Pb", "Qéc", "Qé"}));
    EXPECT_EQ(reasons, (std::vector<std::string>{"length", "length", "stop", "stop"}));
    EXPECT_EQ(offsets[1], "[1]");
    EXPECT_EQ(offsets[2], "[2]");
    EXPECT_EQ(at(usage, "prompt_tokens"), 14);
    EXPECT_EQ(at(usage, "completion_tokens"), 6);
    EXPECT_EQ(at(usage, "prompt_tokens_details.cached_tokens"), 8);
  }
}

TEST(Completions, NothingIsGeneratedForNoTokens) {
  for (const bool stream : {false, true}) {
    Sent sent;
    PreparedRequest request;
    request.generates = false;
    request.shape = shape(Endpoint::kCompletions, stream);
    request.shape.echoes = {"P"};
    request.requests.resize(1);
    request.requests[0].prompt = {256, 'P'};
    const auto w = writer(request.shape, sent);
    answer_without_model(*w, request);
    ASSERT_FALSE(sent.parts.empty());
    EXPECT_TRUE(sent.parts.back().last);
    if (stream) {
      EXPECT_EQ(events(sent.bytes()).size(), 3u);
      EXPECT_EQ(at(json::parse(events(sent.bytes())[0]), "choices.0.text"), "P");
    } else {
      const auto response = json::parse(sent.bytes());
      EXPECT_EQ(at(response, "choices.0.text"), "P");
      EXPECT_EQ(at(response, "choices.0.finish_reason"), "length");
      EXPECT_EQ(at(response, "usage.prompt_tokens"), 2);
      EXPECT_EQ(at(response, "usage.completion_tokens"), 0);
    }
  }
}

constexpr Endpoint kEndpoints[] = {Endpoint::kChat, Endpoint::kCompletions, Endpoint::kResponses};

TEST(Errors, BeforeAnythingWasSentHaveAStatus) {
  for (const Endpoint endpoint : kEndpoints) {
    for (const bool stream : {false, true}) {
      Sent sent;
      const auto w = writer(shape(endpoint, stream), sent);
      const auto sink = make_sinks(w).at(0);
      w->fail(refusal({ErrorCode::kBusy, "the queue is full"}));
      sink->on_error({ErrorCode::kIo, "more"});
      sink->on_finish(0, FinishReason::kStop);
      ASSERT_EQ(sent.parts.size(), 1u);
      EXPECT_EQ(sent.parts[0].http_status, 429);
      EXPECT_FALSE(sent.parts[0].event_stream);
      EXPECT_TRUE(sent.parts[0].last);
      EXPECT_EQ(at(json::parse(sent.bytes()), "error.message"), "the queue is full");
    }
  }
}

TEST(Errors, InAStreamAreEvents) {
  for (const Endpoint endpoint : {Endpoint::kChat, Endpoint::kCompletions}) {
    Sent sent;
    const auto sink = make_sinks(writer(shape(endpoint, true), sent)).at(0);
    step(*sink, 0, 'h', "h");
    sink->on_error({ErrorCode::kInvalidData, "the model computed infinity"});
    step(*sink, 0, 'i', "i");
    const auto all = events(sent.bytes());
    ASSERT_GE(all.size(), 3u);
    EXPECT_EQ(json::parse(all[all.size() - 2]),
              json::parse(R"({"error":{"message":"the model computed infinity",
                              "type":"server_error","param":null,"code":"internal_error"}})"));
    EXPECT_EQ(all.back(), "[DONE]");
    EXPECT_TRUE(sent.parts.back().last);
    EXPECT_EQ(sent.bytes().find("finish_reason\":\""), std::string::npos);
  }
}

TEST(Errors, AfterTextThatWasOnlyCollectedAreResponses) {
  Sent sent;
  const auto sink = make_sinks(writer(shape(Endpoint::kChat, false), sent)).at(0);
  step(*sink, 0, 'h', "h");
  sink->on_error({ErrorCode::kIo, "gone"});
  ASSERT_EQ(sent.parts.size(), 1u);
  EXPECT_EQ(sent.parts[0].http_status, 500);
}

TEST(Errors, AChoiceThatWasCancelledOrBrokeOffIsNoAnswer) {
  for (const auto& [reason, status] :
       {std::pair(FinishReason::kCancelled, 503), std::pair(FinishReason::kError, 500)}) {
    Sent sent;
    const auto sink = make_sinks(writer(shape(Endpoint::kChat, false), sent)).at(0);
    step(*sink, 0, 'h', "h");
    sink->on_finish(0, reason);
    sink->on_done(kUsage);
    ASSERT_EQ(sent.parts.size(), 1u);
    EXPECT_EQ(sent.parts[0].http_status, status);
  }
  // Neither is one that never finished.
  Sent sent;
  make_sinks(writer(shape(Endpoint::kChat, false), sent)).at(0)->on_done(kUsage);
  ASSERT_EQ(sent.parts.size(), 1u);
  EXPECT_EQ(sent.parts[0].http_status, 500);
}

TEST(ResponsesStream, IsTheSequenceThatOpenAiSends) {
  Sent sent;
  const auto sink = make_sinks(writer(shape(Endpoint::kResponses, true), sent)).at(0);
  step(*sink, 0, 'h', "h");
  step(*sink, 0, 'i', "i");
  sink->on_finish(0, FinishReason::kStop);
  sink->on_done(kUsage);
  const auto all = events(sent.bytes());
  const std::vector<std::string> types = {
      "response.created",           "response.in_progress",
      "response.output_item.added", "response.content_part.added",
      "response.output_text.delta", "response.output_text.delta",
      "response.output_text.done",  "response.content_part.done",
      "response.output_item.done",  "response.completed"};
  ASSERT_EQ(all.size(), types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    EXPECT_EQ(at(parsed(all, i), "type"), json::string_view(types[i]));
    EXPECT_EQ(at(parsed(all, i), "sequence_number"), i);
    EXPECT_NE(sent.bytes().find("event: " + types[i] + "\ndata: {"), std::string::npos);
  }
  EXPECT_EQ(at(parsed(all, 5), "delta"), "i");
  EXPECT_EQ(at(parsed(all, 6), "text"), "hi");
  EXPECT_EQ(at(parsed(all, 9), "response.status"), "completed");
  EXPECT_EQ(at(parsed(all, 9), "response.output.0.content.0.text"), "hi");
  EXPECT_EQ(at(parsed(all, 9), "response.usage.total_tokens"), 10);

  // The object at its end is what the same request gets without a stream.
  Sent whole;
  const auto again = make_sinks(writer(shape(Endpoint::kResponses, false), whole)).at(0);
  step(*again, 0, 'h', "h");
  step(*again, 0, 'i', "i");
  again->on_finish(0, FinishReason::kStop);
  again->on_done(kUsage);
  EXPECT_EQ(at(parsed(all, 9), "response"), json::parse(whole.bytes()));
}

TEST(ResponsesStream, SaysWhatIsMissing) {
  Sent cut;
  const auto sink = make_sinks(writer(shape(Endpoint::kResponses, true), cut)).at(0);
  step(*sink, 0, 'h', "h");
  sink->on_finish(0, FinishReason::kLength);
  sink->on_done(kUsage);
  const auto last = json::parse(events(cut.bytes()).back());
  EXPECT_EQ(at(last, "type"), "response.incomplete");
  EXPECT_EQ(at(last, "response.incomplete_details.reason"), "max_output_tokens");
  EXPECT_EQ(at(last, "response.output.0.status"), "incomplete");

  Sent broken;
  const auto failing = make_sinks(writer(shape(Endpoint::kResponses, true), broken)).at(0);
  step(*failing, 0, 'h', "h");
  failing->on_error({ErrorCode::kIo, "gone"});
  const auto failed = json::parse(events(broken.bytes()).back());
  EXPECT_EQ(at(failed, "type"), "response.failed");
  EXPECT_EQ(at(failed, "response.error.message"), "gone");
}

TEST(ResponseId, HasTheEndpointsPrefixAndIsFixedInLength) {
  EXPECT_EQ(make_response_id(Endpoint::kChat, 1, 0xABC),
            "chatcmpl-00000000000000010000000000000abc");
  EXPECT_TRUE(make_response_id(Endpoint::kCompletions, 0, 0).starts_with("cmpl-"));
  EXPECT_TRUE(make_response_id(Endpoint::kResponses, 0, 0).starts_with("resp_"));
}

}  // namespace
}  // namespace quire::openai
