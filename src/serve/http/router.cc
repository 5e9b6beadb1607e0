#include "serve/http/router.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace quire {
namespace {

bool is_prefix(const Route& route) { return route.path.ends_with("/*"); }

bool matches(const Route& route, std::string_view path) {
  if (!is_prefix(route)) return route.path == path;
  const std::string_view folder = std::string_view(route.path).substr(0, route.path.size() - 1);
  return path.size() > folder.size() && path.starts_with(folder);
}

}  // namespace

void Router::add(std::string method, std::string path, HttpHandler handler, RouteOptions options) {
  QUIRE_CHECK(path.starts_with('/') && handler);
  QUIRE_CHECK(std::none_of(routes_.begin(), routes_.end(), [&](const Route& route) {
    return route.method == method && route.path == path;
  }));
  routes_.push_back({std::move(method), std::move(path), std::move(handler), options});
}

Router::Match Router::find(std::string_view method, std::string_view path) const {
  Match match;
  const auto visit = [&](const Route& route) {
    if (!matches(route, path)) return;
    const bool exact = route.method == method;
    if (exact || (method == "HEAD" && route.method == "GET" && match.route == nullptr))
      match.route = &route;
    if (match.allow.find(route.method) == std::string::npos) match.allow += route.method + ", ";
  };
  // What is named in full goes before what is below a folder.
  for (const Route& route : routes_)
    if (!is_prefix(route)) visit(route);
  if (match.allow.empty()) std::for_each(routes_.begin(), routes_.end(), visit);
  if (match.allow.empty()) return match;
  if (match.allow.find("GET") != std::string::npos && match.allow.find("HEAD") == std::string::npos)
    match.allow += "HEAD, ";
  match.allow += "OPTIONS";
  return match;
}

}  // namespace quire
