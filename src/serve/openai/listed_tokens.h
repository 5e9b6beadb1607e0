#pragma once
// Which tokens an answer lists with their log-probabilities, and how.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sample/sampler.h"
#include "text/tokenizer.h"

namespace quire::openai {

struct ListedToken {
  SampledToken sampled;
  std::size_t text_offset = 0;  // characters (code points) of the answer's text in front of it
};

/// Lists the tokens of one choice. A token is listed once some of its text is given out, so that
/// those of a stop string are not, nor is the one that ended the answer: the listed tokens are
/// those of the text, in a stream as elsewhere.
class TokenTrail {
 public:
  TokenTrail(const Tokenizer& tokenizer, bool ignore_eos)
      : tokenizer_(&tokenizer),
        decoder_(tokenizer, /*show_special=*/false, /*continues=*/true),
        ignore_eos_(ignore_eos) {}

  /// Tokens that came with a step, and the text that was given out with it; what is now listed.
  std::vector<ListedToken> push(std::span<const SampledToken> tokens, std::string_view text);

  /// What is left of an answer that ran into its limit: tokens without a text of their own.
  std::vector<ListedToken> finish();

 private:
  struct Waiting {
    ListedToken token;
    std::size_t begin = 0;  // bytes of the text in front of it
  };
  const Tokenizer* tokenizer_;
  StreamDecoder decoder_;
  bool ignore_eos_;
  std::deque<Waiting> waiting_;
  std::size_t decoded_bytes_ = 0;
  std::size_t decoded_chars_ = 0;
  std::size_t given_bytes_ = 0;
};

/// Code points of a valid text.
std::size_t count_chars(std::string_view text);

/// `text` as a JSON string, quotes included.
void append_json(std::string& out, std::string_view text);
/// A finite number; -inf, which JSON lacks, is -9999, as OpenAI writes it.
void append_json(std::string& out, float logprob);

/// [{"token", "logprob", "bytes", "top_logprobs"}, ...]
std::string token_list_json(std::span<const ListedToken> tokens, const Tokenizer& tokenizer);

/// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; offsets begin at `offset`. The
/// alternatives of a token are those asked for, and the token itself if it is not among them.
std::string completion_logprobs_json(std::span<const ListedToken> tokens, std::size_t offset,
                                     bool with_top, const Tokenizer& tokenizer);

}  // namespace quire::openai
