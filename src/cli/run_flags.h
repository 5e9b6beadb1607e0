#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "text/chat_template.h"

namespace quire {

struct RunFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string prompt;
  std::string file;
  std::string system;
  std::vector<std::string> stop;
  std::size_t max_tokens = 0;  // 0: no limit but the context
  bool chat = false;
  bool raw = false;
  bool special = false;
  bool ignore_eos = false;
  bool json = false;
  std::string speculate = "off";
  std::size_t draft_tokens = 16;
  // Given at all? An empty text is not the same as none.
  CLI::Option* prompt_option = nullptr;
  CLI::Option* file_option = nullptr;
  CLI::Option* system_option = nullptr;
  CLI::Option* draft_option = nullptr;
};

/// The system message, if there is one.
std::vector<ChatMessage> system_messages(const RunFlags& flags);

/// Templates work on characters, so a message must be UTF-8.
Status check_message(const std::string& text);

}  // namespace quire
