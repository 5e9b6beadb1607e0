#pragma once
// One answer between the threads that make it (through a Responder) and the connection that sends
// it.

#include <cstddef>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "serve/http/response_head.h"

namespace quire::http {

/// What the connection is to send next, in this order.
struct Output {
  std::optional<ResponseHead> head;
  bool streamed = false;  // the length of the body is not known with its head
  std::string body;
  bool complete = false;  // nothing follows
  bool broken = false;    // nothing follows, and the end is missing
};

class Exchange {
 public:
  /// `notify` tells the connection that there is something for it; called under a lock, from any
  /// thread, never after detach().
  Exchange(std::size_t max_unsent, std::function<void()> notify);

  // The maker's side, as Responder has it.
  bool respond(ResponseHead head, std::string body);
  bool start_stream(ResponseHead head);
  bool write(std::string_view bytes);
  bool finish();
  void on_disconnect(std::function<void()> callback);
  bool gone() const;
  /// Nobody will add anything.
  void abandon();

  // The connection's side.
  Output take();
  /// So many bytes of taken bodies are with the system now.
  void sent(std::size_t n_bytes);
  bool too_slow() const;
  /// Whether the maker has said everything (which may still have to be sent).
  bool finished() const;
  /// The client is gone: says so to the maker unless it has finished.
  void disconnect();
  /// Cuts the tie to the connection, which is about to do something else.
  void detach();

 private:
  enum class State { kEmpty, kStreaming, kFinished, kBroken };

  void tell_connection();

  mutable std::mutex mutex_;
  const std::size_t max_unsent_;
  std::function<void()> notify_;
  std::function<void()> on_disconnect_;
  State state_ = State::kEmpty;
  std::optional<ResponseHead> head_;
  std::string body_;        // not yet taken
  std::size_t unsent_ = 0;  // bytes, taken ones included
  bool streamed_ = false;
  bool told_ = false;  // the connection, since it last took something
  bool gone_ = false;
  bool too_slow_ = false;
};

}  // namespace quire::http
