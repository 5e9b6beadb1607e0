#pragma once
// Which handler answers which method and path.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/http/http_request.h"
#include "serve/http/responder.h"

namespace quire {

/// Called on an io thread; it must not block. What it throws becomes a 500.
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<Responder>)>;

struct RouteOptions {
  bool needs_key = true;        // where the server has keys
  bool while_draining = false;  // answered even when new work is refused, as /health is
};

struct Route {
  std::string method;
  std::string path;
  HttpHandler handler;
  RouteOptions options;
};

class Router {
 public:
  /// `path` is matched exactly; one that ends in "/*" matches everything below, e.g. /v1/models/*.
  /// A route for GET answers HEAD too, without the body.
  void add(std::string method, std::string path, HttpHandler handler, RouteOptions options = {});

  struct Match {
    const Route* route = nullptr;
    std::string allow;  // the methods of this path for an Allow header; empty: no such path
  };
  Match find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace quire
