#include "text/chat_template.h"

#include <boost/json.hpp>

#include "text/bridge.h"
#include "text/template_constants.h"
#include "text/utf8.h"

namespace quire {
namespace {

// Generous for the longest conversation (engine/prompt.h), tight for a template that means harm.
// The memory is the most that a long one gets.
constexpr quire_template_limits kLimits = {
    .fuel = 1'000'000,
    .output_bytes = std::size_t{32} << 20,
    .memory_bytes = std::size_t{512} << 20,
    .milliseconds = 5'000,
};

}  // namespace

struct ChatTemplate::Impl {
  bridge::TemplateHandle handle;
  std::vector<std::string> constants;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, std::string_view bos_token,
                                         std::string_view eos_token) {
  quire_template* raw = nullptr;
  bridge::Buffer error;
  if (!quire_template_new(bridge::borrow(source), bridge::borrow(bos_token),
                          bridge::borrow(eos_token), &kLimits, &raw, error.out())) {
    return error.as_error(ErrorCode::kInvalidData);
  }
  auto impl = std::make_unique<Impl>();
  impl->handle.reset(raw);
  impl->constants = template_constants(source);
  return ChatTemplate(std::move(impl));
}

Result<std::string> ChatTemplate::render(std::span<const ChatMessage> messages,
                                         bool add_generation_prompt) const {
  boost::json::array list;
  list.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    list.push_back(boost::json::object{{"role", replace_invalid_utf8(message.role)},
                                       {"content", replace_invalid_utf8(message.content)}});
  }
  const boost::json::object context{{"messages", std::move(list)},
                                    {"add_generation_prompt", add_generation_prompt}};
  return render_json(boost::json::serialize(context));
}

Result<std::string> ChatTemplate::render_json(std::string_view context_json) const {
  bridge::Buffer text;
  bridge::Buffer error;
  if (!quire_template_render(impl_->handle.get(), bridge::borrow(context_json), text.out(),
                             error.out())) {
    return error.as_error(ErrorCode::kInvalidData);
  }
  return text.str();
}

const std::vector<std::string>& ChatTemplate::constants() const { return impl_->constants; }

}  // namespace quire
