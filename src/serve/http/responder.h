#pragma once
// Where a handler puts its answer.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "serve/http/http_request.h"

namespace quire {

namespace http {
class Exchange;
}

/// The answer to one request: respond() once, or start_stream(), write()s and finish(). Everything
/// may be called from any thread and returns at once. What returns bool says whether somebody still
/// listens; false is final, and there is nothing left to do.
///
/// The last owner letting go without an answer gives the client a 500; in the middle of a stream it
/// cuts the connection, so that the client does not take the part for the whole.
class Responder {
 public:
  explicit Responder(std::shared_ptr<http::Exchange> exchange);
  ~Responder();
  Responder(const Responder&) = delete;
  Responder& operator=(const Responder&) = delete;

  /// A whole answer. Headers that frame it (Content-Length, Connection, Date, x-request-id) are
  /// added.
  bool respond(int status, std::string_view content_type, std::string body,
               HttpHeaders headers = {});

  bool start_stream(int status, std::string_view content_type, HttpHeaders headers = {});
  /// False also from when the client has left more than HttpLimits::unsent_bytes unread: then the
  /// stream is cut.
  bool write(std::string_view bytes);
  bool finish();

  /// Calls `callback` at most once, on an io thread, when the client goes away or is cut off before
  /// the answer is finished; inside of this call if that has happened already. It is dropped, with
  /// everything it holds, when the answer is finished.
  void on_disconnect(std::function<void()> callback);
  /// Whether the client is known to be gone.
  bool gone() const;

 private:
  std::shared_ptr<http::Exchange> exchange_;
};

}  // namespace quire
