#include "cli/chat.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "cli/console.h"
#include "cli/report.h"
#include "engine/prompt.h"
#include "text/utf8.h"

namespace quire {
namespace {

constexpr const char* kChatHelp =
    "/clear  forget the conversation      /help  this list\n"
    "/quit   end (also Ctrl-D)            Ctrl-C  end an answer\n";

class Conversation {
 public:
  Conversation(Engine& engine, const ChatTemplate& chat_template, const RunFlags& flags,
               GenerateRequest request)
      : engine_(engine),
        template_(chat_template),
        first_(system_messages(flags)),
        messages_(first_),
        request_(std::move(request)),
        session_(engine) {}

  void clear() { messages_ = first_; }

  // One turn. A message that cannot be answered is forgotten, so that the next one can be.
  Status say_and_answer(const std::string& text, Output& out) {
    QUIRE_RETURN_IF_ERROR(check_message(text));
    messages_.push_back({"user", text});
    auto answered = answer(out);
    if (!answered) {
      messages_.pop_back();
      return fail(std::move(answered).error());
    }
    messages_.push_back({"assistant", std::move(answered->text)});
    return {};
  }

 private:
  Result<GenerateResult> answer(Output& out) {
    QUIRE_ASSIGN_OR_RETURN(request_.prompt,
                           encode_chat(engine_.tokenizer(), template_, messages_, true));
    StreamingSink stream(out, /*silent=*/false);
    auto result = session_.generate(request_, stream.sink());
    stream.finish();
    if (result) {
      if (!result->text.ends_with('\n')) out.write("\n");
      write_stderr(report_turn(*result, engine_));
      if (result->error) return fail(std::move(*result->error));
    }
    return result;
  }

  Engine& engine_;
  const ChatTemplate& template_;
  std::vector<ChatMessage> first_;
  std::vector<ChatMessage> messages_;
  GenerateRequest request_;
  Session session_;
};

}  // namespace

std::vector<ChatMessage> system_messages(const RunFlags& flags) {
  if (flags.system_option->count() == 0) return {};
  return {{"system", flags.system}};
}

Status check_message(const std::string& text) {
  const std::size_t valid = valid_utf8_length(text);
  if (valid == text.size()) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the message is not valid UTF-8 at byte {} (--raw sends any bytes)", valid);
}

int chat(Engine& engine, const RunFlags& flags, GenerateRequest request, double load_s) {
  const auto& chat_template = engine.chat_template();
  QUIRE_CHECK(chat_template.has_value());  // needs_chat_template
  if (!chat_template->has_value()) {
    return failure({ErrorCode::kUnsupported,
                    "--chat needs a chat template, and this model carries none; "
                    "-p continues a text instead"});
  }
  if (auto status = check_message(flags.system); !status) return failure(status.error());

  const bool at_terminal = ::isatty(STDIN_FILENO) == 1;
  say("load {:.2f} s, context {} tokens\n", load_s, engine.options().context);
  if (at_terminal) write_stderr(kChatHelp);
  Conversation conversation(engine, **chat_template, flags, std::move(request));
  Output out;
  InterruptGuard guard;
  std::string line = flags.prompt;  // -p is the first message
  int exit_code = kExitOk;
  while (true) {
    if (line.empty()) {
      if (at_terminal) write_stderr("\n> ");
      const auto is_there = read_line(line);
      if (!is_there) return failure(is_there.error());
      if (!*is_there) break;
    }
    const std::string message = std::exchange(line, {});
    if (message == "/quit" || message == "/exit") break;
    if (message == "/clear") {
      conversation.clear();
    } else if (message == "/help") {
      write_stderr(kChatHelp);
    } else if (!message.empty()) {
      if (auto status = conversation.say_and_answer(message, out); !status) {
        exit_code = failure(status.error());
        if (!at_terminal) return exit_code;  // a script would go on without noticing
      }
      if (InterruptGuard::interrupted()) {
        if (!at_terminal) return kExitInterrupted;
        guard.rearm();  // it ended the answer, not the conversation
      }
      if (!out.is_open()) break;
    }
  }
  if (InterruptGuard::interrupted()) return kExitInterrupted;
  return out.finish() == kExitOk ? exit_code : kExitFailure;
}

}  // namespace quire
