#include "serve/http/request_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

namespace quire::http {
namespace {

namespace beast = boost::beast;
using boost::system::error_code;

constexpr std::size_t kLastChunk = 5;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

/// Beast's parser, writing into our request.
class RequestParser::Sink : public beast::http::basic_parser<true> {
 public:
  explicit Sink(HttpRequest& request) : request_(request) {}

  std::string target;
  int version = 11;

 private:
  void on_request_impl(beast::http::verb, beast::string_view method,
                       beast::string_view request_target, int http_version,
                       error_code& ec) override {
    request_.method = view(method);
    target = view(request_target);
    version = http_version;
    ec = {};
  }

  void on_response_impl(int, beast::string_view, int, error_code&) override {}

  void on_field_impl(beast::http::field, beast::string_view name, beast::string_view value,
                     error_code& ec) override {
    ec = {};
    if (head_is_done_) return;  // a trailer, behind a chunked body: nobody here has a use for one
    request_.headers.push_back({std::string(view(name)), std::string(view(value))});
  }

  void on_header_impl(error_code& ec) override {
    head_is_done_ = true;
    ec = {};
  }

  // Memory grows with what arrives, not with what was announced.
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code& ec) override {
    ec = {};
  }

  std::size_t on_body_impl(beast::string_view bytes, error_code& ec) override {
    request_.body += view(bytes);
    ec = {};
    return bytes.size();
  }

  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code& ec) override { ec = {}; }

  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view bytes, error_code& ec) override {
    return on_body_impl(bytes, ec);
  }

  void on_finish_impl(error_code& ec) override { ec = {}; }

  HttpRequest& request_;
  bool head_is_done_ = false;
};

RequestParser::RequestParser(const HttpLimits& limits)
    : limits_(limits), sink_(std::make_unique<Sink>(request_)) {
  // The head is counted here: Beast's limit depends on how its bytes were cut.
  sink_->header_limit(std::numeric_limits<std::uint32_t>::max());
  sink_->body_limit(limits.body_bytes);
}

RequestParser::~RequestParser() = default;

int RequestParser::version() const { return sink_->version; }

bool RequestParser::keep_alive() const { return version() >= 11 && sink_->keep_alive(); }

void RequestParser::fail(int status, std::string_view code, std::string_view message) {
  state_ = State::kFailed;
  failure_ = error_reply(status, code, message);
}

RequestParser::State RequestParser::feed(std::string& inbox) {
  std::size_t used = 0;
  if (!started_) {  // empty lines before a request mean nothing
    used = std::min(inbox.find_first_not_of("\r\n"), inbox.size());
    started_ = used < inbox.size();
  }
  while (used < inbox.size() && (state_ == State::kHead || state_ == State::kBody)) {
    // Beast counts on the last chunk being there with its end, "0\r\n\r\n". Whatever else has
    // fewer bytes left is followed by that.
    if (state_ == State::kBody && sink_->chunked() && inbox.size() - used < kLastChunk) break;
    error_code ec;
    const std::size_t n = sink_->put({inbox.data() + used, inbox.size() - used}, ec);
    used += n;
    if (state_ == State::kHead) {
      head_bytes_ += n;
      // Until it ends, what is left belongs to it too.
      const std::size_t left = ec == beast::http::error::need_more ? inbox.size() - used : 0;
      if (head_bytes_ + left > limits_.header_bytes) {
        fail(431, "headers_too_large",
             fmt::format("The request line and headers have more than the {} bytes allowed.",
                         limits_.header_bytes));
        break;
      }
    }
    if (ec == beast::http::error::need_more) {
      // The line that describes a chunk and the lines behind the last are kept until they end.
      if (state_ == State::kBody && inbox.size() - used > limits_.header_bytes)
        fail(400, "invalid_http", "A line between two chunks of the body is too long.");
      break;
    }
    if (ec == beast::http::error::body_limit) {
      fail(413, "body_too_large",
           fmt::format("The body has more than the {} bytes allowed.", limits_.body_bytes));
    } else if (ec == beast::http::error::bad_version) {
      fail(505, "unsupported_version", "This server speaks HTTP/1.1 and HTTP/1.0.");
    } else if (ec) {
      fail(400, "invalid_http", fmt::format("This is not valid HTTP: {}.", ec.message()));
    } else if (sink_->is_done()) {
      const bool head_was_last = state_ == State::kHead;
      state_ = State::kDone;
      if (head_was_last) check_head();
    } else if (state_ == State::kHead && sink_->is_header_done()) {
      state_ = State::kBody;
      sink_->eager(true);
      check_head();
      break;
    } else if (n == 0) {
      break;
    }
  }
  inbox.erase(0, used);
  return state_;
}

void RequestParser::check_head() {
  std::size_t n_hosts = 0;
  for (const HttpHeader& header : request_.headers) {
    n_hosts += equal_ignoring_case(header.name, "Host");
    // Whoever stands before this server may understand another coding differently, and so see
    // another end of the request: one form, or none.
    if (equal_ignoring_case(header.name, "Transfer-Encoding") &&
        (!equal_ignoring_case(header.value, "chunked") || version() < 11))
      return fail(501, "unsupported_encoding", "The only transfer coding here is chunked.");
    if (equal_ignoring_case(header.name, "Expect")) {
      if (!equal_ignoring_case(header.value, "100-continue"))
        return fail(417, "unknown_expectation", "The only expectation here is 100-continue.");
      expects_continue_ = version() >= 11 && state_ == State::kBody;
    }
  }
  if (n_hosts > 1 || (n_hosts == 0 && version() >= 11))
    return fail(400, "invalid_http", "A request has exactly one Host header.");
  if (!parse_target(sink_->target, request_))
    return fail(400, "invalid_target", "The request line names no valid path.");
}

}  // namespace quire::http
