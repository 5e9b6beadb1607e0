#include "serve/http/responder.h"

#include <utility>

#include "serve/http/exchange.h"

namespace quire {

Responder::Responder(std::shared_ptr<http::Exchange> exchange) : exchange_(std::move(exchange)) {}

Responder::~Responder() { exchange_->abandon(); }

bool Responder::respond(int status, std::string_view content_type, std::string body,
                        HttpHeaders headers) {
  return exchange_->respond(
      {.status = status, .content_type = std::string(content_type), .headers = std::move(headers)},
      std::move(body));
}

bool Responder::start_stream(int status, std::string_view content_type, HttpHeaders headers) {
  return exchange_->start_stream(
      {.status = status, .content_type = std::string(content_type), .headers = std::move(headers)});
}

bool Responder::write(std::string_view bytes) { return exchange_->write(bytes); }

bool Responder::finish() { return exchange_->finish(); }

void Responder::on_disconnect(std::function<void()> callback) {
  exchange_->on_disconnect(std::move(callback));
}

bool Responder::gone() const { return exchange_->gone(); }

}  // namespace quire
