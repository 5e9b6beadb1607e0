#include "text/tokenizer.h"
#include "text/utf8.h"

namespace quire {

std::string StreamDecoder::push(TokenId id) {
  std::string bytes = tokenizer_->token_bytes(id, show_special_);
  if (at_start_ && !bytes.empty()) {
    // The space that encoding put in front of the text is not part of it.
    if (tokenizer_->adds_space_prefix() && bytes.front() == ' ') bytes.erase(0, 1);
    at_start_ = false;
  }
  pending_ += bytes;

  std::string_view rest = pending_;
  std::string out;
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Step::Kind::kIncomplete) break;
    out.append(step.kind == Utf8Step::Kind::kCharacter ? rest.substr(0, step.length)
                                                       : kReplacementCharacter);
    rest.remove_prefix(step.length);
  }
  pending_.erase(0, pending_.size() - rest.size());
  return out;
}

std::string StreamDecoder::finish() {
  const std::string out = replace_invalid_utf8(pending_);
  pending_.clear();
  return out;
}

}  // namespace quire
