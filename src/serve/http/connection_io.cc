#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "serve/http/connection.h"

namespace quire::http {
namespace {

/// A connection that waits costs this; one that receives a large body reads larger pieces.
constexpr std::size_t kSmallRead = 4u << 10;
constexpr std::size_t kLargeRead = 64u << 10;
/// What is kept of requests that are sent before the answer to the one before them.
constexpr std::size_t kInboxBytes = 64u << 10;
/// What a client still sends after the last answer is read and thrown away, until it is silent for
/// so long: closing with unread bytes would reset the connection, and the client, who reads when it
/// has sent everything, would never see the answer.
constexpr std::chrono::seconds kLinger{2};
constexpr std::chrono::seconds kLingerInAll{30};

std::string chunk_of(std::string_view body) {
  return fmt::format("{:x}\r\n{}\r\n", body.size(), body);
}

}  // namespace

/// Sends what the exchange has until that is all; whether the connection can go on.
asio::awaitable<bool> Connection::answer(const RequestParser& parser, std::string_view request_id,
                                         RequestRecord& record) {
  const bool no_body = record.method == "HEAD";
  Framing framing{.length = 0, .request_id = request_id};
  read_more();  // it pauses while a request sent ahead fills the inbox
  for (;;) {
    if (exchange_->too_slow()) {
      record.outcome = "too_slow";
      co_return false;
    }
    Output output = exchange_->take();
    const std::size_t n_body = output.body.size();
    std::string wire;
    if (output.head) {
      framing.keep_alive = parser.state() == RequestParser::State::kDone && parser.keep_alive() &&
                           !overrun_ && !core_->draining();
      if (output.streamed)
        framing.length.reset();
      else
        framing.length = n_body;
      framing.until_close = output.streamed && parser.version() < 11;
      record.status = output.head->status;
      wire = format_head(*output.head, framing);
    }
    const bool chunked = !framing.length && !framing.until_close;
    if (!no_body) {
      if (n_body != 0) wire += chunked ? chunk_of(output.body) : output.body;
      if (output.complete && chunked) wire += "0\r\n\r\n";
      record.body_bytes += n_body;
    }
    output.body = {};
    if (!wire.empty()) {
      const bool sent = co_await send(wire);
      if (!sent) {
        record.outcome = stalled_ || exchange_->too_slow() ? "too_slow" : "disconnected";
        co_return false;
      }
      exchange_->sent(n_body);
    }
    if (output.complete) record.outcome = "ok";
    if (output.complete) co_return framing.keep_alive;
    if (output.broken) record.outcome = "dropped";
    if (output.broken || (gone_ && !exchange_->finished())) co_return false;
    if (wire.empty()) co_await wait_until(Clock::time_point::max());
  }
}

asio::awaitable<bool> Connection::send(std::string_view bytes) {
  while (!bytes.empty()) {
    arm(limits_.write_timeout);
    const std::size_t n = co_await transport_->write_some(asio::buffer(bytes.data(), bytes.size()));
    disarm();
    if (n == 0) {
      lose_client();
      co_return false;
    }
    bytes.remove_prefix(n);
  }
  co_return true;
}

/// The polite end of a connection.
asio::awaitable<void> Connection::linger() {
  if (!gone_) {
    discarding_ = true;
    inbox_ = {};
    read_more();
    arm(kLinger);
    co_await transport_->shutdown();
    disarm();
    const Clock::time_point end = Clock::now() + kLingerInAll;
    for (bool silent = false; !gone_ && !silent;) {
      const Clock::time_point deadline = std::min(end, Clock::now() + kLinger);
      co_await wait_until(deadline);  // a read ends it early
      silent = Clock::now() >= deadline;
    }
  }
  lose_client();
}

asio::awaitable<void> Connection::wait_until(Clock::time_point deadline) {
  if (!woken_) {
    event_.expires_at(deadline);
    co_await event_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  woken_ = false;
}

void Connection::wake() {
  woken_ = true;
  event_.cancel();
}

/// Cuts the connection after `timeout`, unless guard_ is armed again or cancelled before.
void Connection::arm(Clock::duration timeout) {
  guard_.expires_after(timeout);
  guard_.async_wait([self = shared_from_this(), round = ++guard_round_](error_code ec) {
    if (ec || round != self->guard_round_) return;
    self->stalled_ = true;
    self->lose_client();
  });
}

void Connection::disarm() {
  ++guard_round_;
  guard_.cancel();
}

void Connection::read_more() {
  if (reading_ || gone_) return;
  if (inbox_.size() >= kInboxBytes && !exchange_ && !discarding_) return;  // until it is parsed
  if (chunk_.empty()) chunk_.resize(kSmallRead);
  reading_ = true;
  transport_->read(asio::buffer(chunk_), [self = shared_from_this()](error_code ec, std::size_t n) {
    self->on_read(ec, n);
  });
}

void Connection::on_read(error_code ec, std::size_t n_bytes) {
  reading_ = false;
  if (ec) {
    gone_ = true;
    wake();
    // An answer that is already whole is still sent, and so is that to a request that came with the
    // end: the client may have closed its side only.
    if (exchange_ && !exchange_->finished()) lose_client();
    return;
  }
  if (!discarding_ && exchange_ && inbox_.size() + n_bytes > kInboxBytes) overrun_ = true;
  if (!discarding_ && !overrun_) inbox_.append(chunk_.data(), n_bytes);
  // Larger pieces for who sends much, and back again: the memory of an idle connection counts.
  if (n_bytes == chunk_.size() && n_bytes < kLargeRead)
    chunk_.resize(kLargeRead);
  else if (n_bytes < kSmallRead && chunk_.size() > kSmallRead)
    std::vector<char>(kSmallRead).swap(chunk_);
  wake();
  read_more();
}

void Connection::on_notify() {
  // The coroutine may wait for a write that a slow client never lets end.
  if (exchange_ && exchange_->too_slow()) lose_client();
  wake();
}

void Connection::lose_client() {
  gone_ = true;
  transport_->close();
  if (exchange_) exchange_->disconnect();
  wake();
}

}  // namespace quire::http
