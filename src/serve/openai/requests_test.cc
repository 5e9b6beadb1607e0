// What requests mean once they are read.

#include "serve/openai/requests.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quire::openai {
namespace {

RequestOptions constrained() {
  RequestOptions options;
  options.supports_constraints = true;
  return options;
}

ChatRequest chat(const std::string& rest, const RequestOptions& options = {}) {
  auto request =
      parse_chat(R"({"messages":[{"role":"user","content":"hi"}])" + rest + "}", options);
  EXPECT_TRUE(request) << request.error().message;
  return std::move(request).value_or(ChatRequest());
}

std::string chat_fault(const std::string& messages, const RequestOptions& options = {}) {
  const auto request = parse_chat("{\"messages\":[" + messages + "]}", options);
  return request ? "" : request.error().param;
}

std::string structure_fault(const std::string& rest) {
  const auto request =
      parse_chat(R"({"messages":[{"role":"user","content":"hi"}],)" + rest + "}", constrained());
  return request ? "" : request.error().param;
}

TEST(ChatRequest, DefaultsAreOpenAis) {
  const ChatRequest request = chat("");
  const GenerationFields& fields = request.generation;
  EXPECT_EQ(fields.sampling.temperature, 1.0f);
  EXPECT_EQ(fields.sampling.top_p, 1.0f);
  EXPECT_EQ(fields.sampling.top_k, 0u);
  EXPECT_EQ(fields.sampling.min_p, 0.0f);
  EXPECT_EQ(fields.sampling.repeat_penalty, 1.0f);
  EXPECT_EQ(fields.sampling.presence_penalty, 0.0f);
  EXPECT_FALSE(fields.sampling.logprobs);
  EXPECT_FALSE(fields.seed);
  EXPECT_EQ(fields.n, 1u);
  EXPECT_EQ(fields.best_of, 1u);
  EXPECT_TRUE(fields.stop.empty());
  EXPECT_FALSE(fields.max_tokens);
  EXPECT_FALSE(fields.stream);
  EXPECT_FALSE(fields.include_usage);
  EXPECT_EQ(request.structure.constraint.kind, Constraint::Kind::kNone);
}

TEST(ChatRequest, FieldsArriveWhereTheyBelong) {
  const ChatRequest request = chat(R"(,"model":"m","temperature":0.5,"top_p":0.25,"top_k":7,
      "min_p":0.125,"presence_penalty":-1,"frequency_penalty":1.5,"repetition_penalty":1.25,
      "seed":-1,"logit_bias":{"3":-100,"7":2.5},"n":2,"best_of":4,"stop":["a","é"],
      "max_completion_tokens":9,"logprobs":true,"top_logprobs":5,"ignore_eos":true,"priority":-3,
      "cache_salt":"s","user":"u","parallel_tool_calls":false)");
  const GenerationFields& fields = request.generation;
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(fields.sampling.temperature, 0.5f);
  EXPECT_EQ(fields.sampling.top_p, 0.25f);
  EXPECT_EQ(fields.sampling.top_k, 7u);
  EXPECT_EQ(fields.sampling.min_p, 0.125f);
  EXPECT_EQ(fields.sampling.presence_penalty, -1.0f);
  EXPECT_EQ(fields.sampling.frequency_penalty, 1.5f);
  EXPECT_EQ(fields.sampling.repeat_penalty, 1.25f);
  EXPECT_EQ(fields.seed, 18446744073709551615u);
  ASSERT_EQ(fields.sampling.logit_bias.size(), 2u);
  EXPECT_EQ(fields.sampling.logit_bias[1], (std::pair<TokenId, float>(7, 2.5f)));
  EXPECT_EQ(fields.n, 2u);
  EXPECT_EQ(fields.best_of, 4u);
  EXPECT_EQ(fields.stop, (std::vector<std::string>{"a", "é"}));
  EXPECT_EQ(fields.max_tokens, 9u);
  EXPECT_TRUE(fields.sampling.logprobs);
  EXPECT_EQ(fields.sampling.n_logprobs, 5u);
  EXPECT_TRUE(fields.ignore_eos);
  EXPECT_EQ(fields.priority, -3);
  EXPECT_EQ(fields.cache_salt, "s");
  EXPECT_FALSE(request.structure.parallel_tool_calls);
}

TEST(ChatRequest, TwoNamesOfOneThingMustAgree) {
  EXPECT_EQ(chat(R"(,"max_tokens":5,"max_completion_tokens":5)").generation.max_tokens, 5u);
  EXPECT_EQ(structure_fault(R"("max_tokens":5,"max_completion_tokens":6)"), "max_tokens");
  EXPECT_EQ(chat(R"(,"repeat_penalty":1.5)").generation.sampling.repeat_penalty, 1.5f);
  EXPECT_EQ(structure_fault(R"("repeat_penalty":1.5,"repetition_penalty":1.25)"), "repeat_penalty");
}

// The sampler wants more than 0; both leave nothing but the likeliest token.
TEST(ChatRequest, TopPOfNothingIsTheLikeliestToken) {
  for (const char* zero : {"0", "1e-300"}) {
    const auto fields = chat(fmt::format(",\"top_p\":{}", zero)).generation;
    EXPECT_GT(fields.sampling.top_p, 0.0f);
    EXPECT_TRUE(Sampler::create(fields.sampling, 10));
  }
}

TEST(ChatRequest, ContentIsTextOrPartsOfIt) {
  const auto content = [](const std::string& json) {
    const auto request =
        parse_chat("{\"messages\":[{\"role\":\"user\",\"content\":" + json + "}]}", {});
    EXPECT_TRUE(request) << request.error().message;
    return request ? request->messages[0].content : "?";
  };
  EXPECT_EQ(content("\"\""), "");
  EXPECT_EQ(content("\"a\\nb\""), "a\nb");
  EXPECT_EQ(content(R"([{"type":"text","text":"a"}])"), "a");
  EXPECT_EQ(content(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])"), "a\nb");
  EXPECT_EQ(content("\"\\u0000\"").size(), 1u);
}

TEST(ChatRequest, MessagesAreCheckedInEveryPlace) {
  const std::string user = R"({"role":"user","content":"a"},)";
  EXPECT_EQ(chat_fault(user + R"({"role":"assistant","content":"b"})"), "");
  EXPECT_EQ(chat_fault(user + "3"), "messages[1]");
  EXPECT_EQ(chat_fault(user + "{}"), "messages[1].role");
  EXPECT_EQ(chat_fault(user + R"({"role":"wizard","content":"b"})"), "messages[1].role");
  EXPECT_EQ(chat_fault(user + R"({"role":"function","content":"b"})"), "messages[1].role");
  EXPECT_EQ(chat_fault(user + R"({"role":"user"})"), "messages[1].content");
  EXPECT_EQ(chat_fault(user + R"({"role":"user","content":null})"), "messages[1].content");
  EXPECT_EQ(chat_fault(user + R"({"role":"user","content":5})"), "messages[1].content");
  EXPECT_EQ(chat_fault(user + R"({"role":"user","content":[]})"), "messages[1].content");
  EXPECT_EQ(chat_fault(user + R"({"role":"user","content":["a"]})"), "messages[1].content[0]");
  EXPECT_EQ(chat_fault(R"({"role":"user","content":[{"type":"text","text":"a"},
                          {"type":"image_url","image_url":{"url":"data:"}}]})"),
            "messages[0].content[1]");
  EXPECT_EQ(chat_fault(R"({"role":"user","content":[{"type":"input_audio","input_audio":{}}]})"),
            "messages[0].content[0]");
  EXPECT_EQ(chat_fault(R"({"role":"user","content":[{"type":"text"}]})"),
            "messages[0].content[0].text");
  EXPECT_EQ(chat_fault(R"({"role":"user","content":[{"type":"text","text":"a","x":1}]})"),
            "messages[0].content[0].x");
  EXPECT_EQ(chat_fault(R"({"role":"user","content":"a","name":"bob"})"), "messages[0].name");
  EXPECT_EQ(chat_fault(R"({"role":"user","content":"a","weight":1})"), "messages[0].weight");
}

// What a client gets is what it sends back in the next turn.
TEST(ChatRequest, AnAnswerCanBeSentBackAsItCame) {
  EXPECT_EQ(chat_fault(R"({"role":"assistant","content":"a","refusal":null,"annotations":[],
                           "audio":null,"function_call":null,"tool_calls":null})"),
            "");
  EXPECT_EQ(chat_fault(R"({"role":"assistant","content":null,"refusal":"no"})"),
            "messages[0].refusal");
}

TEST(ChatRequest, ADeveloperIsTheSystem) {
  const auto request = parse_chat(R"({"messages":[{"role":"developer","content":"a"}]})", {});
  ASSERT_TRUE(request);
  EXPECT_EQ(request->messages[0].role, "system");
}

TEST(ChatRequest, ToolsAreReadIfThereCanBeAny) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f","description":"d",
      "parameters":{"type":"object"},"strict":true}},{"type":"function","function":{"name":"g"}}])";
  const auto request = chat("," + tools + R"(,"tool_choice":{"type":"function",
      "function":{"name":"g"}})",
                            constrained());
  ASSERT_EQ(request.structure.tools.size(), 2u);
  EXPECT_EQ(request.structure.tools[0].name, "f");
  EXPECT_EQ(request.structure.tools[0].description, "d");
  EXPECT_EQ(request.structure.tools[0].parameters, R"({"type":"object"})");
  EXPECT_TRUE(request.structure.tools[0].strict);
  EXPECT_EQ(request.structure.tool_choice.kind, ToolChoice::Kind::kFunction);
  EXPECT_EQ(request.structure.tool_choice.function, "g");

  const auto without = parse_chat(R"({"messages":[{"role":"user","content":"hi"}],)" + tools + "}",
                                  RequestOptions{});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().param, "tools");
  EXPECT_EQ(without.error().http_status, 400);
}

TEST(ChatRequest, ToolsAreCheckedInEveryPlace) {
  const auto tools = [](const std::string& tool) {
    return structure_fault("\"tools\":[" + tool + "]");
  };
  EXPECT_EQ(tools("1"), "tools[0]");
  EXPECT_EQ(tools("{}"), "tools[0].type");
  EXPECT_EQ(tools(R"({"type":"custom","custom":{}})"), "tools[0].type");
  EXPECT_EQ(tools(R"({"type":"function"})"), "tools[0].function");
  EXPECT_EQ(tools(R"({"type":"function","function":{}})"), "tools[0].function.name");
  EXPECT_EQ(tools(R"({"type":"function","function":{"name":"a b"}})"), "tools[0].function.name");
  EXPECT_EQ(tools(R"({"type":"function","function":{"name":"f","parameters":[]}})"),
            "tools[0].function.parameters");
  EXPECT_EQ(tools(R"({"type":"function","function":{"name":"f"}},
                     {"type":"function","function":{"name":"f"}})"),
            "tools");
  EXPECT_EQ(structure_fault(R"("tool_choice":"required")"), "tool_choice");
  EXPECT_EQ(structure_fault(R"("tool_choice":{"type":"function","function":{"name":"f"}})"),
            "tool_choice");
  EXPECT_EQ(structure_fault(R"("tool_choice":{"type":"allowed_tools"})"), "tool_choice.type");
  EXPECT_EQ(structure_fault(R"("functions":[])"), "functions");
  EXPECT_EQ(structure_fault(R"("function_call":"auto")"), "function_call");
}

TEST(ChatRequest, MessagesOfToolsAreReadIfThereCanBeAny) {
  const std::string messages = R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1",
      "type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"7"})";
  const auto request = parse_chat("{\"messages\":[" + messages + "]}", constrained());
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->messages[0].tool_calls.size(), 1u);
  EXPECT_EQ(request->messages[0].tool_calls[0].arguments, R"({"a":1})");
  EXPECT_EQ(request->messages[1].tool_call_id, "c1");
  EXPECT_EQ(chat_fault(messages), "messages[0].tool_calls");
  EXPECT_EQ(chat_fault(R"({"role":"tool","tool_call_id":"c1","content":"7"})"), "messages[0].role");
  EXPECT_EQ(chat_fault(R"({"role":"tool","content":"7"})", constrained()),
            "messages[0].tool_call_id");
}

TEST(ChatRequest, ConstraintsAreReadIfThereCanBeAny) {
  using Kind = Constraint::Kind;
  const auto constraint = [](const std::string& rest) {
    return chat("," + rest, constrained()).structure.constraint;
  };
  EXPECT_EQ(constraint(R"("response_format":{"type":"text"})").kind, Kind::kNone);
  EXPECT_EQ(constraint(R"("response_format":{"type":"json_object"})").kind, Kind::kJsonObject);
  const auto schema = constraint(R"("response_format":{"type":"json_schema","json_schema":{
      "name":"n","strict":true,"schema":{"type":"object","properties":{"b":{},"a":{}}}}})");
  EXPECT_EQ(schema.kind, Kind::kJsonSchema);
  // The order of properties is kept: it is the order of the answer.
  EXPECT_EQ(schema.source, R"({"type":"object","properties":{"b":{},"a":{}}})");
  EXPECT_EQ(schema.name, "n");
  EXPECT_TRUE(schema.strict);
  const auto regex = constraint(R"("regex":"a+")");
  EXPECT_EQ(regex.kind, Kind::kRegex);
  EXPECT_EQ(regex.source, "a+");
  const auto grammar = constraint(R"("grammar":"start: \"a\"")");
  EXPECT_EQ(grammar.kind, Kind::kLark);
  EXPECT_EQ(grammar.source, "start: \"a\"");

  EXPECT_EQ(structure_fault(R"("response_format":{"type":"json_schema"})"),
            "response_format.json_schema");
  EXPECT_EQ(
      structure_fault(R"("response_format":{"type":"json_schema","json_schema":{"name":"n"}})"),
      "response_format.json_schema.schema");
  EXPECT_EQ(
      structure_fault(R"("response_format":{"type":"json_schema","json_schema":{"schema":{}}})"),
      "response_format.json_schema.name");
  EXPECT_EQ(structure_fault(R"("response_format":{"type":"grammar"})"), "response_format.type");
  EXPECT_EQ(structure_fault(R"("response_format":{"type":"json_object"},"regex":"a")"), "regex");
  EXPECT_EQ(structure_fault(R"("regex":"a","grammar":"b")"), "grammar");
}

CompletionRequest completion(const std::string& members) {
  auto request = parse_completion("{" + members + "}", {});
  EXPECT_TRUE(request) << request.error().message;
  return std::move(request).value_or(CompletionRequest());
}

TEST(CompletionRequest, PromptsComeInFourForms) {
  using Ids = std::vector<TokenId>;
  const auto prompts = [](const std::string& json) {
    return completion("\"prompt\":" + json).prompts;
  };
  EXPECT_EQ(prompts("\"a\""), (std::vector<PromptInput>{"a"}));
  EXPECT_EQ(prompts("\"\""), (std::vector<PromptInput>{""}));
  EXPECT_EQ(prompts(R"(["a","b"])"), (std::vector<PromptInput>{"a", "b"}));
  EXPECT_EQ(prompts("[1,2]"), (std::vector<PromptInput>{Ids{1, 2}}));
  EXPECT_EQ(prompts("[[1,2],[3]]"), (std::vector<PromptInput>{Ids{1, 2}, Ids{3}}));
  EXPECT_EQ(prompts(R"(["a",[3]])"), (std::vector<PromptInput>{"a", Ids{3}}));
}

TEST(CompletionRequest, MaxTokensIsSixteenUnlessSaid) {
  EXPECT_EQ(completion(R"("prompt":"a")").generation.max_tokens, 16u);
  EXPECT_EQ(completion(R"("prompt":"a","max_tokens":null)").generation.max_tokens, 16u);
  EXPECT_EQ(completion(R"("prompt":"a","max_tokens":3)").generation.max_tokens, 3u);
  EXPECT_EQ(completion(R"("prompt":"a","max_tokens":0,"echo":true)").generation.max_tokens, 0u);
}

TEST(CompletionRequest, LogprobsIsANumber) {
  EXPECT_FALSE(completion(R"("prompt":"a")").generation.sampling.logprobs);
  const auto none = completion(R"("prompt":"a","logprobs":0)").generation.sampling;
  EXPECT_TRUE(none.logprobs);
  EXPECT_EQ(none.n_logprobs, 0u);
  EXPECT_EQ(completion(R"("prompt":"a","logprobs":5)").generation.sampling.n_logprobs, 5u);
  const auto echoed = parse_completion(R"({"prompt":"a","logprobs":1,"echo":true})", {});
  ASSERT_FALSE(echoed);
  EXPECT_EQ(echoed.error().param, "logprobs");
}

TEST(ResponsesRequest, InputIsTextOrMessages) {
  const auto request = parse_responses(
      R"({"input":[{"role":"user","content":"a"},{"type":"message","id":"msg_1","role":"assistant",
          "status":"completed","content":[{"type":"output_text","text":"b","annotations":[],
          "logprobs":[]}]},{"role":"user","content":[{"type":"input_text","text":"c"}]}],
          "instructions":"be brief","max_output_tokens":7,"stream":true,"top_logprobs":2})",
      {});
  ASSERT_TRUE(request) << request.error().message;
  ASSERT_EQ(request->messages.size(), 4u);
  EXPECT_EQ(request->messages[0].role, "system");
  EXPECT_EQ(request->messages[0].content, "be brief");
  EXPECT_EQ(request->messages[2].content, "b");
  EXPECT_EQ(request->messages[3].content, "c");
  EXPECT_EQ(request->generation.max_tokens, 7u);
  EXPECT_TRUE(request->generation.stream);
  EXPECT_TRUE(request->generation.sampling.logprobs);
  EXPECT_EQ(request->generation.sampling.n_logprobs, 2u);

  const auto text = parse_responses(R"({"input":"hi"})", {});
  ASSERT_TRUE(text);
  EXPECT_EQ(text->messages.at(0).role, "user");
  EXPECT_EQ(text->messages.at(0).content, "hi");

  const auto fault = [](const std::string& input) {
    const auto bad = parse_responses("{\"input\":" + input + "}", {});
    return bad ? "" : bad.error().param;
  };
  EXPECT_EQ(fault(R"([{"type":"function_call_output","call_id":"c"}])"), "input[0].type");
  EXPECT_EQ(fault(R"([{"role":"tool","content":"a"}])"), "input[0].role");
  EXPECT_EQ(fault(R"([{"role":"user","content":[{"type":"input_image"}]}])"),
            "input[0].content[0]");
}

TEST(TokenizeRequest, TakesAPromptOrMessages) {
  const auto prompt = parse_tokenize(R"({"prompt":"a","add_special_tokens":false})", {});
  ASSERT_TRUE(prompt);
  EXPECT_EQ(std::get<std::string>(prompt->input), "a");
  EXPECT_FALSE(prompt->add_special_tokens);
  const auto messages = parse_tokenize(
      R"({"messages":[{"role":"user","content":"a"}],"add_generation_prompt":false})", {});
  ASSERT_TRUE(messages);
  EXPECT_FALSE(messages->add_generation_prompt);
  const auto both =
      parse_tokenize(R"({"messages":[{"role":"user","content":"a"}],"prompt":"b"})", {});
  ASSERT_FALSE(both);
  EXPECT_EQ(both.error().param, "prompt");
}

}  // namespace
}  // namespace quire::openai
