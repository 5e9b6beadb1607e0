#include "serve/http/exchange.h"

#include <exception>
#include <utility>

namespace quire::http {

Exchange::Exchange(std::size_t max_unsent, std::function<void()> notify)
    : max_unsent_(max_unsent), notify_(std::move(notify)) {}

void Exchange::tell_connection() {
  if (told_ || !notify_) return;
  told_ = true;
  notify_();
}

// Callbacks are destroyed outside of the lock: one may hold the last Responder, which comes back
// here with abandon().

bool Exchange::respond(ResponseHead head, std::string body) {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  if (gone_ || state_ != State::kEmpty) return false;
  head_ = std::move(head);
  body_ = std::move(body);
  unsent_ = body_.size();
  state_ = State::kFinished;
  released.swap(on_disconnect_);
  tell_connection();
  return true;
}

bool Exchange::start_stream(ResponseHead head) {
  const std::lock_guard lock(mutex_);
  if (gone_ || state_ != State::kEmpty) return false;
  head_ = std::move(head);
  streamed_ = true;
  state_ = State::kStreaming;
  tell_connection();
  return true;
}

bool Exchange::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (gone_ || too_slow_ || state_ != State::kStreaming) return false;
  if (unsent_ > max_unsent_) {
    too_slow_ = true;
    told_ = false;
    tell_connection();
    return false;
  }
  if (bytes.empty()) return true;
  body_ += bytes;
  unsent_ += bytes.size();
  tell_connection();
  return true;
}

bool Exchange::finish() {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  if (gone_ || too_slow_ || state_ != State::kStreaming) return false;
  state_ = State::kFinished;
  released.swap(on_disconnect_);
  tell_connection();
  return true;
}

void Exchange::on_disconnect(std::function<void()> callback) {
  {
    std::function<void()> released;
    const std::lock_guard lock(mutex_);
    if (state_ == State::kFinished || state_ == State::kBroken) return;
    if (!gone_) {
      released.swap(on_disconnect_);
      on_disconnect_ = std::move(callback);
      return;
    }
  }
  callback();
}

bool Exchange::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_ || too_slow_;
}

void Exchange::abandon() {
  {
    std::function<void()> released;
    const std::lock_guard lock(mutex_);
    if (gone_ || state_ == State::kFinished) return;
    if (state_ == State::kStreaming) {
      state_ = State::kBroken;
      released.swap(on_disconnect_);
      tell_connection();
      return;
    }
  }
  Reply reply = error_reply(500, "internal_error", "The server gave no answer to this request.");
  respond(std::move(reply.head), std::move(reply.body));
}

Output Exchange::take() {
  const std::lock_guard lock(mutex_);
  told_ = false;
  Output output{.head = std::move(head_),
                .streamed = streamed_,
                .body = std::move(body_),
                .complete = state_ == State::kFinished,
                .broken = state_ == State::kBroken};
  head_.reset();
  body_.clear();
  return output;
}

void Exchange::sent(std::size_t n_bytes) {
  const std::lock_guard lock(mutex_);
  unsent_ -= n_bytes;
}

bool Exchange::too_slow() const {
  const std::lock_guard lock(mutex_);
  return too_slow_;
}

bool Exchange::finished() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::kFinished;
}

void Exchange::disconnect() {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    if (gone_) return;
    gone_ = true;
    body_.clear();
    body_.shrink_to_fit();
    callback.swap(on_disconnect_);
  }
  if (!callback) return;
  try {
    callback();
  } catch (const std::exception&) {
    // Whoever threw is no longer interested in this request, and the connection has no use for it.
    return;
  }
}

void Exchange::detach() {
  std::function<void()> released;
  const std::lock_guard lock(mutex_);
  gone_ = true;
  released.swap(notify_);
}

}  // namespace quire::http
