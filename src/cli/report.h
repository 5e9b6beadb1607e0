#pragma once
// What a finished answer tells about itself, for people and for programs; and the stream of text
// before that.

#include <cstdint>
#include <optional>
#include <string>

#include "base/progress.h"
#include "cli/console.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace quire {

struct RunReport {
  const GenerateResult& result;
  const Engine& engine;
  double load_s = 0;
  std::uint64_t seed = 0;
};

/// A few aligned lines. The seed only if the user did not choose it and it mattered.
std::string report_figures(const RunReport& report, bool with_seed);

/// One line of one turn of a conversation.
std::string report_turn(const GenerateResult& result, const Engine& engine);

/// One object on one line; docs/cli.md describes it.
std::string report_json(const RunReport& report, bool with_logprobs);

/// Sends text to standard output as it comes, shows a bar while a long prompt is computed, and
/// cancels on Ctrl-C or when nobody reads.
class StreamingSink {
 public:
  StreamingSink(Output& out, bool silent) : out_(out), silent_(silent) {}
  /// Refers to this object.
  GenerateSink sink();
  void finish() { progress_.reset(); }

 private:
  Output& out_;
  bool silent_;
  std::optional<Progress> progress_;
};

}  // namespace quire
