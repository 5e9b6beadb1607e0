#pragma once
// One request as handlers see it.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quire {

struct HttpHeader {
  std::string name;
  std::string value;
};
using HttpHeaders = std::vector<HttpHeader>;

struct HttpRequest {
  std::string method;                                      // as sent, e.g. "POST"
  std::string path;                                        // decoded, without the query
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in the order sent
  HttpHeaders headers;                                     // in the order sent
  std::string body;
  std::string remote;  // "127.0.0.1:51234"
  std::string id;      // the client's x-request-id where that is valid, else one of ours
  std::string tenant;  // the name of the key that was checked; empty where no keys are needed

  /// The first header of that name, in any case.
  std::optional<std::string_view> header(std::string_view name) const;
  /// The first query parameter of that name.
  std::optional<std::string_view> parameter(std::string_view name) const;
};

namespace http {

bool equal_ignoring_case(std::string_view a, std::string_view b);

/// Fills path and query from what stands in the request line; false if that is malformed. The
/// absolute form ("http://host/path") counts as its path.
bool parse_target(std::string_view target, HttpRequest& request);

/// 1 to 128 letters, digits and ._:-
bool valid_request_id(std::string_view id);
/// Never the same twice; unguessable enough to find a line in a log, no secret.
std::string new_request_id();

}  // namespace http
}  // namespace quire
