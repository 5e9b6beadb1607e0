#include "text/template_constants.h"

#include <algorithm>

namespace quire {
namespace {

char unescaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return c;
  }
}

/// The constant whose opening quote is at `at`, which is left behind the closing one.
std::string take_constant(std::string_view source, std::size_t& at) {
  const char quote = source[at++];
  std::string out;
  while (at < source.size() && source[at] != quote) {
    if (source[at] == '\\' && at + 1 < source.size()) {
      out.push_back(unescaped(source[at + 1]));
      at += 2;
    } else {
      out.push_back(source[at++]);
    }
  }
  at = std::min(at + 1, source.size());
  return out;
}

}  // namespace

std::vector<std::string> template_constants(std::string_view source) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while ((at = source.find('{', at)) != std::string_view::npos) {
    const char kind = at + 1 < source.size() ? source[at + 1] : '\0';
    if (kind == '#') {
      at = std::min(source.find("#}", at + 2), source.size());
      continue;
    }
    if (kind != '{' && kind != '%') {
      ++at;
      continue;
    }
    const std::string_view end = kind == '{' ? "}}" : "%}";
    at += 2;
    while (at < source.size() && !source.substr(at).starts_with(end)) {
      if (source[at] == '\'' || source[at] == '"') {
        out.push_back(take_constant(source, at));
      } else {
        ++at;
      }
    }
  }
  std::ranges::sort(out);
  const auto repeated = std::ranges::unique(out);
  out.erase(repeated.begin(), repeated.end());
  std::erase(out, std::string());
  return out;
}

}  // namespace quire
