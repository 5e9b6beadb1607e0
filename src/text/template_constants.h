#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace quire {

/// The string constants in a Jinja template's expressions and statements, each once and none empty:
/// all that a template can look for in a message. Of a text that is no template whatever looks like
/// one.
std::vector<std::string> template_constants(std::string_view source);

}  // namespace quire
