#include "text/grammar.h"

#include <string>
#include <utility>
#include <vector>

#include "text/bridge.h"

namespace quire {
namespace {

std::uint8_t bridge_kind(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return QUIRE_JSON_SCHEMA;
    case GrammarKind::kRegex:
      return QUIRE_REGEX;
    case GrammarKind::kLark:
      break;
  }
  return QUIRE_LARK;
}

}  // namespace

struct Grammar::Impl {
  struct Free {
    void operator()(quire_grammar* p) const { quire_grammar_free(p); }
  };
  std::unique_ptr<quire_grammar, Free> handle;
  std::vector<std::uint32_t> allowed;
};

Grammar::Grammar(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Grammar::Grammar(Grammar&&) noexcept = default;
Grammar& Grammar::operator=(Grammar&&) noexcept = default;
Grammar::~Grammar() = default;

Result<Grammar> Grammar::fork() const {
  quire_grammar* raw = nullptr;
  bridge::Buffer error;
  if (!quire_grammar_fork(impl_->handle.get(), &raw, error.out()))
    return error.as_error(ErrorCode::kInvalidData);
  auto impl = std::make_unique<Impl>();
  impl->handle.reset(raw);
  impl->allowed.resize(impl_->allowed.size());
  return Grammar(std::move(impl));
}

Result<std::span<const std::uint32_t>> Grammar::allowed() {
  bridge::Buffer error;
  if (!quire_grammar_allowed(impl_->handle.get(), impl_->allowed.data(), impl_->allowed.size(),
                             error.out()))
    return error.as_error(ErrorCode::kInvalidData);
  return impl_->allowed;
}

Status Grammar::accept(TokenId token) {
  bridge::Buffer error;
  if (!quire_grammar_accept(impl_->handle.get(), token, error.out()))
    return error.as_error(ErrorCode::kInvalidData);
  return {};
}

bool Grammar::complete() const { return quire_grammar_is_complete(impl_->handle.get()); }

struct GrammarCompiler::Impl {
  struct Free {
    void operator()(quire_grammars* p) const { quire_grammars_free(p); }
  };
  std::unique_ptr<quire_grammars, Free> handle;
  std::size_t n_words = 0;  // of a set of tokens
};

GrammarCompiler::GrammarCompiler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrammarCompiler::GrammarCompiler(GrammarCompiler&&) noexcept = default;
GrammarCompiler& GrammarCompiler::operator=(GrammarCompiler&&) noexcept = default;
GrammarCompiler::~GrammarCompiler() = default;

Result<GrammarCompiler> GrammarCompiler::create(const Tokenizer& tokenizer) {
  std::vector<std::string> tokens(tokenizer.vocab_size());
  std::vector<std::int32_t> ends;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    // Special tokens are no text.
    tokens[i] = tokenizer.token_bytes(id, /*show_special=*/false);
    if (tokenizer.is_end_of_generation(id)) ends.push_back(id);
  }
  quire_grammars* raw = nullptr;
  bridge::Buffer error;
  if (!quire_grammars_new(bridge::borrow_all(tokens), ends.data(), ends.size(), &raw, error.out()))
    return error.as_error(ErrorCode::kUnsupported);
  auto impl = std::make_unique<Impl>();
  impl->handle.reset(raw);
  impl->n_words = (tokens.size() + 31) / 32;
  return GrammarCompiler(std::move(impl));
}

Result<Grammar> GrammarCompiler::compile(GrammarKind kind, std::string_view source) const {
  quire_grammar* raw = nullptr;
  bridge::Buffer error;
  if (!quire_grammar_new(impl_->handle.get(), bridge_kind(kind), bridge::borrow(source), &raw,
                         error.out()))
    return error.as_error(ErrorCode::kInvalidArgument);
  auto impl = std::make_unique<Grammar::Impl>();
  impl->handle.reset(raw);
  impl->allowed.resize(impl_->n_words);
  return Grammar(std::move(impl));
}

}  // namespace quire
