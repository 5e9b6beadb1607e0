#pragma once
// Text that comes from a model file, before it reaches a message or a terminal.

#include <cstddef>
#include <string>
#include <string_view>

namespace quire {

/// Whether `text` is valid UTF-8 without control characters (C0, DEL, C1) or characters that hide
/// or reorder what stands around them.
bool is_plain_utf8(std::string_view text);

/// `text` made safe to print: control characters, bidirectional overrides and invalid bytes as
/// \xNN, and at most about `max_bytes` of it, followed by "..." if cut.
std::string printable(std::string_view text, std::size_t max_bytes = 120);

}  // namespace quire
