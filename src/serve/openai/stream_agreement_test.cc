// A stream says the same as one object, to the byte: text, tokens, numbers, reasons and usage.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "sample/stop_matcher.h"
#include "serve/openai/openai_testing.h"
#include "serve/openai/response_writer.h"

namespace quire::openai {
namespace {

namespace json = boost::json;
using testing::ByteTokenizer;
using testing::Sent;

struct Step {
  std::size_t prompt = 0;
  std::size_t choice = 0;
  SampledToken token;
};

struct Scene {
  ResponseShape shape;
  std::vector<Step> steps;
  std::string stop;  // empty: none
};

// What the service does with tokens: decode, hold back, stop.
class Playback {
 public:
  Playback(const Scene& scene, const std::shared_ptr<ResponseWriter>& writer)
      : scene_(scene), sinks_(make_sinks(writer)) {
    for (std::size_t i = 0; i < sinks_.size() * scene.shape.n; ++i) {
      std::vector<std::string> stops;
      if (!scene.stop.empty()) stops.push_back(scene.stop);
      choices_.push_back({StreamDecoder(tokenizer(), false, true), *StopMatcher::create(stops)});
    }
  }

  void run() {
    for (const Step& step : scene_.steps) feed(step);
    for (std::size_t i = 0; i < choices_.size(); ++i) end(i, FinishReason::kLength);
    for (std::size_t i = 0; i < sinks_.size(); ++i)
      sinks_[i]->on_done({.prompt_tokens = 3 + i, .cached_tokens = i, .completion_tokens = 5});
  }

  static const ByteTokenizer& tokenizer() {
    static const ByteTokenizer instance;
    return instance;
  }

 private:
  struct Choice {
    StreamDecoder decoder;
    StopMatcher stops;
    bool ended = false;
  };

  void feed(const Step& step) {
    const std::size_t index = step.prompt * scene_.shape.n + step.choice;
    Choice& choice = choices_[index];
    if (choice.ended) return;
    const bool eog = tokenizer().is_end_of_generation(step.token.token);
    const std::string text =
        eog ? std::string() : choice.stops.push(choice.decoder.push(step.token.token));
    sinks_[step.prompt]->on_delta(
        {.choice = step.choice, .text = text, .tokens = std::span(&step.token, 1)});
    if (eog || choice.stops.stopped()) end(index, FinishReason::kStop);
  }

  void end(std::size_t index, FinishReason reason) {
    Choice& choice = choices_[index];
    if (std::exchange(choice.ended, true)) return;
    auto& sink = *sinks_[index / scene_.shape.n];
    if (!choice.stops.stopped()) {
      std::string rest = choice.stops.push(choice.decoder.finish());
      rest += choice.stops.finish();
      sink.on_delta({.choice = index % scene_.shape.n, .text = rest, .tokens = {}});
      if (choice.stops.stopped()) reason = FinishReason::kStop;
    }
    sink.on_finish(index % scene_.shape.n, reason);
  }

  const Scene& scene_;
  std::vector<std::shared_ptr<ServiceSink>> sinks_;
  std::vector<Choice> choices_;
};

Sent play(Scene scene, bool stream) {
  scene.shape.stream = stream;
  Sent sent;
  const auto writer = make_writer(scene.shape, {.id = "resp_1", .created = 1},
                                  Playback::tokenizer(), sent.output());
  Playback(scene, writer).run();
  return sent;
}

void append_items(json::value& to, const json::value& from) {
  if (!from.is_array()) return;
  if (!to.is_array()) to = json::array();
  for (const json::value& item : from.get_array()) to.get_array().push_back(item);
}

// The choices as a client puts them together: text, logprobs, reason.
struct Answer {
  std::string text;
  json::value logprobs = nullptr;
  std::string reason;
};
struct Whole {
  std::vector<Answer> answers;
  json::value usage;
};

void add_choice(const json::value& choice, bool chat, Whole& whole) {
  Answer& answer = whole.answers.at(choice.at("index").to_number<std::size_t>());
  const json::object& object = choice.as_object();
  const json::value* text = object.if_contains("text");
  if (const auto* delta = object.if_contains("delta"))
    text = delta->as_object().if_contains("content");
  if (const auto* message = object.if_contains("message")) text = &message->at("content");
  if (text != nullptr) answer.text += json::value_to<std::string>(*text);
  if (const json::object* logprobs = choice.at("logprobs").if_object()) {
    if (!answer.logprobs.is_object()) answer.logprobs = json::object();
    json::object& all = answer.logprobs.get_object();
    if (chat) {
      append_items(all["content"], logprobs->at("content"));
    } else {
      for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
        append_items(all[name], logprobs->at(name));
    }
  }
  if (const auto* reason = choice.at("finish_reason").if_string()) {
    RC_ASSERT(answer.reason.empty());
    answer.reason = reason->c_str();
  }
}

Whole read(const Sent& sent, const ResponseShape& shape, bool stream) {
  Whole whole;
  whole.answers.resize(shape.n * shape.echoes.size());
  const bool chat = shape.endpoint == Endpoint::kChat;
  std::vector<std::string> objects = {sent.bytes()};
  if (stream) {
    objects = testing::events(sent.bytes());
    RC_ASSERT(objects.back() == "[DONE]");
    objects.pop_back();
  }
  for (const std::string& text : objects) {
    const json::value object = json::parse(text);
    for (const json::value& choice : object.at("choices").as_array())
      add_choice(choice, chat, whole);
    if (object.at("usage").is_object()) {
      RC_ASSERT(whole.usage.is_null());
      whole.usage = object.at("usage");
    }
  }
  return whole;
}

Scene random_scene() {
  using rc::gen::inRange;
  Scene scene;
  scene.shape.endpoint = *rc::gen::element(Endpoint::kChat, Endpoint::kCompletions);
  scene.shape.n = *inRange<std::size_t>(1, 4);
  scene.shape.include_usage = true;
  scene.shape.logprobs = *rc::gen::arbitrary<bool>();
  scene.shape.n_logprobs = *inRange<std::uint32_t>(0, 3);
  scene.shape.ignore_eos = false;
  const bool chat = scene.shape.endpoint == Endpoint::kChat;
  scene.shape.echoes.assign(chat ? 1 : *inRange<std::size_t>(1, 3), "");
  for (std::string& echo : scene.shape.echoes)
    if (!chat && !scene.shape.logprobs) echo = *rc::gen::element<std::string>("", "Pé");
  scene.stop = *rc::gen::element<std::string>("", "ab", "é", "\xEF\xBF\xBD");
  const auto n_steps = *inRange<std::size_t>(0, 60);
  for (std::size_t i = 0; i < n_steps; ++i) {
    Step step;
    step.prompt = *inRange<std::size_t>(0, scene.shape.echoes.size());
    step.choice = *inRange<std::size_t>(0, scene.shape.n);
    const auto token = [] {
      return *rc::gen::element<TokenId>('a', 'b', '"', '\n', 0, 0xC3, 0xA9, 0xF0, 0x9F, 0x98, 0x80,
                                        0xFF, ByteTokenizer::kBos, ByteTokenizer::kEnd);
    };
    step.token.token = token();
    step.token.logprob = -0.125f * static_cast<float>(i);
    for (std::uint32_t k = 0; k < scene.shape.n_logprobs; ++k)
      step.token.top.push_back({token(), -1.5f * static_cast<float>(k)});
    scene.steps.push_back(step);
  }
  return scene;
}

bool is_nothing(const json::value& list) { return !list.is_array() || list.get_array().empty(); }

TEST(StreamAgreement, AStreamAndAnObjectSayTheSame) {
  EXPECT_TRUE(rc::check([] {
    const Scene scene = random_scene();
    const Whole streamed = read(play(scene, true), scene.shape, true);
    const Whole whole = read(play(scene, false), scene.shape, false);
    RC_ASSERT(streamed.usage == whole.usage);
    for (std::size_t i = 0; i < whole.answers.size(); ++i) {
      const Answer& a = streamed.answers[i];
      Answer b = whole.answers[i];
      RC_ASSERT(a.text == b.text);
      RC_ASSERT(a.reason == b.reason);
      RC_ASSERT(!b.reason.empty());
      // A choice without a listed token has no chunk to say so.
      if (a.logprobs.is_null() && b.logprobs.is_object()) {
        for (auto& member : b.logprobs.get_object()) RC_ASSERT(is_nothing(member.value()));
      } else {
        RC_ASSERT(a.logprobs == b.logprobs);
      }
    }
  }));
}

// The listed tokens are those of the text: they decode to it (and to the rest of the token that a
// stop string began in), and the last of them begins inside it.
TEST(StreamAgreement, ListedTokensAreTheTextsOwn) {
  EXPECT_TRUE(rc::check([] {
    Scene scene = random_scene();
    scene.shape.endpoint = Endpoint::kChat;
    scene.shape.echoes.assign(1, "");
    scene.shape.logprobs = true;
    for (Step& step : scene.steps) step.prompt = 0;
    const Whole whole = read(play(scene, false), scene.shape, false);
    for (const Answer& answer : whole.answers) {
      StreamDecoder decoder(Playback::tokenizer(), false, true);
      std::string text;
      std::size_t last_begin = 0;
      bool any = false;
      for (const json::value& entry : answer.logprobs.at("content").as_array()) {
        const json::array& bytes = entry.at("bytes").as_array();
        last_begin = text.size();
        any = true;
        // Only control tokens have more than one byte here, and they have no text.
        if (bytes.size() == 1) text += decoder.push(bytes[0].to_number<TokenId>());
      }
      text += decoder.finish();
      RC_ASSERT(text.starts_with(answer.text));
      if (answer.reason == "length") RC_ASSERT(text == answer.text);
      if (answer.reason == "stop" && any) RC_ASSERT(last_begin < answer.text.size());
    }
  }));
}

}  // namespace
}  // namespace quire::openai
