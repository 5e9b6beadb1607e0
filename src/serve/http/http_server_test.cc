#include "serve/http/http_server.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <mutex>
#include <string>
#include <vector>

#include "serve/http/http_testing.h"

namespace quire {
namespace {

using testing::Client;
using testing::ClientResponse;
using testing::eventually;

std::string code_of(const ClientResponse& response) {
  const auto value = boost::json::parse(response.body).at("error").at("code");
  return value.is_null() ? "" : std::string(value.as_string());
}

TEST(HttpServer, AnswersManyRequestsOnOneConnection) {
  const auto server = testing::serve(testing::simple_routes());
  Client client(server->port());
  for (int i = 0; i < 20; ++i) {
    client.request("GET", "/hello");
    const ClientResponse hello = client.response();
    EXPECT_EQ(hello.status, 200);
    EXPECT_EQ(hello.body, "hello");
    EXPECT_EQ(hello.header("Content-Type"), "text/plain");
    EXPECT_EQ(hello.header("Connection"), "keep-alive");
    const std::string body(static_cast<std::size_t>(i) * 50'000, 'x');
    client.request("POST", "/echo", body);
    EXPECT_EQ(client.response().body, body);
  }
  EXPECT_EQ(server->connections(), 1u);
}

TEST(HttpServer, ClosesWhenAsked) {
  const auto server = testing::serve(testing::simple_routes());
  Client client(server->port());
  client.request("GET", "/hello", {}, "Connection: close\r\n");
  const ClientResponse response = client.response();
  EXPECT_EQ(response.body, "hello");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(client.at_end());
  Client old(server->port());
  old.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.response().body, "hello");
  EXPECT_TRUE(old.at_end());
}

TEST(HttpServer, RefusesInTheShapeOfErrorsOfTheApi) {
  const auto server = testing::serve(testing::simple_routes());
  Client client(server->port());
  client.request("GET", "/nowhere");
  ClientResponse response = client.response();
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.header("Content-Type"), "application/json");
  const auto error = boost::json::parse(response.body).at("error");
  EXPECT_TRUE(error.at("message").is_string());
  EXPECT_EQ(error.at("type"), "invalid_request_error");
  EXPECT_TRUE(error.at("param").is_null());
  EXPECT_EQ(error.at("code"), "unknown_url");

  client.request("DELETE", "/hello");
  response = client.response();
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(code_of(response), "method_not_allowed");

  client.send("GARBAGE\r\n\r\n");
  response = client.response();
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_EQ(code_of(response), "invalid_http");
  EXPECT_TRUE(client.at_end());
}

TEST(HttpServer, AnswersHeadAndOptions) {
  const auto server = testing::serve(testing::simple_routes());
  Client client(server->port());
  client.request("HEAD", "/hello");
  const ClientResponse head = client.response(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("Content-Length"), "5");
  client.request("OPTIONS", "/echo");
  const ClientResponse options = client.response();
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("Allow"), "POST, OPTIONS");
  client.request("OPTIONS", "*");
  EXPECT_EQ(client.response().status, 204);
  client.request("HEAD", "/echo");
  EXPECT_EQ(client.response(true).status, 405);
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().body, "hello");  // no byte too many came before
}

TEST(HttpServer, EchoesValidRequestIdsAndMakesOthers) {
  Router router;
  router.add("GET", "/id", [](const HttpRequest& request, const std::shared_ptr<Responder>& to) {
    to->respond(200, "text/plain", request.id);
  });
  const auto server = testing::serve(std::move(router));
  Client client(server->port());
  client.request("GET", "/id", {}, "X-Request-ID: trace-1\r\n");
  ClientResponse response = client.response();
  EXPECT_EQ(response.body, "trace-1");
  EXPECT_EQ(response.header("x-request-id"), "trace-1");
  client.request("GET", "/id", {}, "X-Request-ID: no good {\r\n");
  response = client.response();
  EXPECT_TRUE(response.body.starts_with("req-"));
  EXPECT_EQ(response.header("x-request-id"), response.body);
}

TEST(HttpServer, ServesRequestsSentAheadInOrder) {
  const auto server = testing::serve(testing::simple_routes());
  Client client(server->port());
  std::string all;
  for (int i = 0; i < 50; ++i)
    all += "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n" + std::to_string(10 + i);
  client.send(all);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(client.response().body, std::to_string(10 + i));
}

// More than is kept of what is sent ahead: the first answer still comes, then the end.
TEST(HttpServer, DropsAnAvalancheOfRequestsSentAhead) {
  std::shared_ptr<Responder> later;
  std::mutex mutex;
  Router router = testing::simple_routes();
  router.add("GET", "/later", [&](const HttpRequest&, const std::shared_ptr<Responder>& to) {
    const std::lock_guard lock(mutex);
    later = to;
  });
  const auto server = testing::serve(std::move(router));
  Client client(server->port());
  client.request("GET", "/later");
  // Far more than sockets hold: once it is sent, the server has read more than it keeps.
  const std::string piece(100'000, 'x');
  for (int i = 0; i < 300; ++i) client.request("POST", "/echo", piece);
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return later != nullptr;
  }));
  later->respond(200, "text/plain", "done");
  later.reset();
  const ClientResponse response = client.response();
  EXPECT_EQ(response.body, "done");
  EXPECT_TRUE(client.at_end());
}

TEST(HttpServer, SaysContinueOnlyToWhoMaySend) {
  const auto server = testing::serve(testing::simple_routes());
  const std::string headers = "Host: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
  Client client(server->port());
  client.send("POST /echo HTTP/1.1\r\n" + headers);
  EXPECT_EQ(client.receive_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hello");
  EXPECT_EQ(client.response().body, "hello");
  client.send("POST /nowhere HTTP/1.1\r\n" + headers);
  EXPECT_EQ(client.response().status, 404);
}

TEST(HttpServer, AHandlerThatGivesNoAnswerIs500) {
  Router router;
  router.add("GET", "/nothing", [](const HttpRequest&, const std::shared_ptr<Responder>&) {});
  router.add("GET", "/throws", [](const HttpRequest&, const std::shared_ptr<Responder>&) {
    throw std::runtime_error("broken");
  });
  const auto server = testing::serve(std::move(router));
  Client client(server->port());
  for (const std::string path : {"/nothing", "/throws", "/nothing"}) {
    client.request("GET", path);
    const ClientResponse response = client.response();
    EXPECT_EQ(response.status, 500);
    EXPECT_EQ(code_of(response), "internal_error");
  }
}

TEST(HttpServer, NoValueOfAHeaderCanBecomeAHeader) {
  Router router;
  router.add("GET", "/", [](const HttpRequest&, const std::shared_ptr<Responder>& to) {
    to->respond(200, "text/plain", "x", {{"X-Value", "a\r\nX-Evil: b"}});
  });
  const auto server = testing::serve(std::move(router));
  Client client(server->port());
  client.request("GET", "/");
  const ClientResponse response = client.response();
  EXPECT_EQ(response.header("X-Value"), "a  X-Evil: b");
  EXPECT_EQ(response.header("X-Evil"), "");
}

TEST(HttpServer, StreamsChunksAndToOldClientsUntilTheEnd) {
  Router router;
  router.add("GET", "/stream", [](const HttpRequest&, const std::shared_ptr<Responder>& to) {
    to->start_stream(200, "text/event-stream", {{"Cache-Control", "no-store"}});
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(to->write("data: " + std::to_string(i) + "\n\n"));
    EXPECT_TRUE(to->finish());
    EXPECT_FALSE(to->write("more"));
    EXPECT_FALSE(to->respond(200, "text/plain", "more"));
  });
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += "data: " + std::to_string(i) + "\n\n";
  const auto server = testing::serve(std::move(router));
  Client client(server->port());
  for (int i = 0; i < 2; ++i) {
    client.request("GET", "/stream");
    const ClientResponse response = client.response();
    EXPECT_EQ(response.header("Transfer-Encoding"), "chunked");
    EXPECT_EQ(response.header("Cache-Control"), "no-store");
    EXPECT_EQ(response.body, expected);
    EXPECT_TRUE(response.whole);
  }
  client.request("HEAD", "/stream");
  EXPECT_EQ(client.response(true).status, 200);
  client.request("GET", "/stream");
  EXPECT_EQ(client.response().body, expected);

  Client old(server->port());
  old.send("GET /stream HTTP/1.0\r\n\r\n");
  const ClientResponse response = old.response();
  EXPECT_EQ(response.header("Transfer-Encoding"), "");
  EXPECT_EQ(response.body, expected);
}

TEST(HttpServer, ListensOnIpv6AndSaysWhereItCannot) {
  HttpServerOptions options;
  options.host = "[::1]";
  options.port = 0;
  const auto v6 = HttpServer::start(options, {});
  if (v6) {
    EXPECT_EQ((*v6)->url(), "http://[::1]:" + std::to_string((*v6)->port()));
  } else {  // a machine without IPv6
    EXPECT_TRUE(v6.error().message.starts_with("cannot listen on [::1]:0: ")) << v6.error().message;
  }

  const auto first = testing::serve(testing::simple_routes());
  options.host = "127.0.0.1";
  options.port = first->port();
  auto second = HttpServer::start(options, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().message, "cannot listen on 127.0.0.1:" + std::to_string(first->port()) +
                                        ": Address already in use");
  options.host = "example.com";
  second = HttpServer::start(options, {});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("\"example.com\""), std::string::npos);
}

TEST(HttpServer, TellsWhatBecameOfEachRequest) {
  std::mutex mutex;
  std::vector<std::string> records;
  HttpServerOptions options;
  options.on_request = [&](const RequestRecord& record) {
    const std::lock_guard lock(mutex);
    records.push_back(fmt::format("{} {} {} {} {} {} {}", record.id, record.method, record.path,
                                  record.route, record.status, record.body_bytes, record.outcome));
  };
  const auto server = testing::serve(testing::simple_routes(), options);
  Client client(server->port());
  client.request("GET", "/hello?secret=1", {}, "x-request-id: a\r\n");
  client.response();
  client.request("GET", "/nowhere", {}, "x-request-id: b\r\n");
  const std::size_t n = client.response().body.size();
  ASSERT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return records.size() == 2;
  }));
  EXPECT_EQ(records[0], "a GET /hello /hello 200 5 ok");
  EXPECT_EQ(records[1], "b GET /nowhere  404 " + std::to_string(n) + " ok");
}

}  // namespace
}  // namespace quire
