// What a client may cost, over real sockets.
#include <gtest/gtest.h>
#include <poll.h>

#include <fstream>
#include <string>
#include <vector>

#include "serve/http/http_server.h"
#include "serve/http/http_testing.h"

namespace quire {
namespace {

using testing::Client;
using testing::ClientResponse;
using testing::eventually;

/// Bytes of this process that are in memory.
std::size_t resident() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, pages = 0;
  statm >> total >> pages;
  return pages * 4096;
}

TEST(Limits, ALargeHonestBodyIsTaken) {
  const auto server = testing::serve(testing::simple_routes());
  Client client(server->port());
  const std::string body(16u << 20, 'x');
  client.request("POST", "/echo", body);
  EXPECT_EQ(client.response().body, body);
}

TEST(Limits, AHundredThousandHeadersAre431) {
  const auto server = testing::serve(testing::simple_routes());
  Client client(server->port());
  std::string head = "GET /hello HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 100'000; ++i) head += "a: b\r\n";
  client.send(head + "\r\n");
  const ClientResponse response = client.response();
  EXPECT_EQ(response.status, 431);
  EXPECT_NE(response.body.find("headers_too_large"), std::string::npos);
}

TEST(Limits, AnAnnouncedGigabyteIs413BeforeItIsSent) {
  const auto server = testing::serve(testing::simple_routes());
  for (const std::string expect : {"", "Expect: 100-continue\r\n"}) {
    Client client(server->port());
    client.send("POST /echo HTTP/1.1\r\nHost: h\r\n" + expect +
                "Content-Length: 1073741824\r\n\r\n");
    EXPECT_EQ(client.response().status, 413);
    EXPECT_TRUE(client.at_end());
  }
}

TEST(Limits, BodiesOnTheirWayAreLimitedTogether) {
  HttpServerOptions options;
  options.limits.receiving_bytes = 1'000'000;
  const auto server = testing::serve(testing::simple_routes(), options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 800000\r\n\r\n";
  const std::string most(700'000, 'x'), rest(100'000, 'y');
  Client clients[] = {Client(server->port()), Client(server->port())};
  for (Client& client : clients) client.send(head + most);
  // Either may be the one too many.
  pollfd answered[] = {{clients[0].fd(), POLLIN, 0}, {clients[1].fd(), POLLIN, 0}};
  ASSERT_GT(::poll(answered, 2, 20'000), 0);
  const std::size_t loser = answered[0].revents != 0 ? 0 : 1;
  const ClientResponse refused = clients[loser].response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_NE(refused.body.find("too_many_bodies"), std::string::npos);
  clients[1 - loser].send(rest);
  EXPECT_EQ(clients[1 - loser].response().body, most + rest);
  Client third(server->port());
  third.request("POST", "/echo", most + rest);
  EXPECT_EQ(third.response().body, most + rest);
}

// Who sends it all before reading gets the answer too, and nothing of it is kept.
TEST(Limits, AnEndlessBodyInChunksIs413AndNotKept) {
  HttpServerOptions options;
  options.limits.body_bytes = 1u << 20;
  const auto server = testing::serve(testing::simple_routes(), options);
  Client client(server->port());
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(65536, 'x') + "\r\n";
  const std::size_t before = resident();
  for (int i = 0; i < 2048; ++i) ASSERT_TRUE(client.send(chunk));  // 128 MiB
  EXPECT_LT(resident(), before + (32u << 20));
  EXPECT_EQ(client.response().status, 413);
}

TEST(Limits, TheAnswer413ReachesWhoSendsALittleTooMuch) {
  HttpServerOptions options;
  options.limits.body_bytes = 100'000;
  const auto server = testing::serve(testing::simple_routes(), options);
  for (int i = 0; i < 20; ++i) {
    Client client(server->port());
    client.request("POST", "/echo", std::string(600'000, 'x'));
    EXPECT_EQ(client.response().status, 413);
  }
}

TEST(Limits, ABodyShorterThanAnnouncedIs408) {
  HttpServerOptions options;
  options.limits.body_timeout = std::chrono::milliseconds(100);
  const auto server = testing::serve(testing::simple_routes(), options);
  Client client(server->port());
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf");
  EXPECT_EQ(client.response().status, 408);
  EXPECT_TRUE(client.at_end());
}

TEST(Limits, ABodyLongerThanAnnouncedIsTheNextRequest) {
  const auto server = testing::serve(testing::simple_routes());
  Client client(server->port());
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nok and more\r\n\r\n");
  EXPECT_EQ(client.response().body, "ok");
  EXPECT_EQ(client.response().status, 400);
}

// One byte now and then keeps no connection open.
TEST(Limits, ASlowHeadIs408) {
  HttpServerOptions options;
  options.limits.header_timeout = std::chrono::milliseconds(200);
  const auto server = testing::serve(testing::simple_routes(), options);
  Client slow(server->port());
  std::thread dripping([&] {
    for (const char c :
         std::string("GET /hello HTTP/1.1\r\nHost: h\r\nX-Slow: loris and then some")) {
      if (!slow.send({&c, 1})) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  EXPECT_EQ(slow.response().status, 408);
  dripping.join();
  slow.close();
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
}

TEST(Limits, WhoSaysNothingIsClosedWithoutAWord) {
  HttpServerOptions options;
  options.limits.header_timeout = std::chrono::milliseconds(50);
  const auto impatient = testing::serve(testing::simple_routes(), options);
  EXPECT_TRUE(Client(impatient->port()).at_end());
  options.limits = {};
  options.limits.idle_timeout = std::chrono::milliseconds(50);
  const auto server = testing::serve(testing::simple_routes(), options);
  Client idle(server->port());
  idle.request("GET", "/hello");
  EXPECT_EQ(idle.response().status, 200);
  EXPECT_TRUE(idle.at_end());
}

// The time of a head begins with its first byte, not with the end of the request before.
TEST(Limits, AnIdleConnectionMayUseItsTime) {
  HttpServerOptions options;
  options.limits.header_timeout = std::chrono::milliseconds(300);
  options.limits.idle_timeout = std::chrono::seconds(60);
  const auto server = testing::serve(testing::simple_routes(), options);
  Client client(server->port());
  for (int i = 0; i < 2; ++i) {
    client.request("GET", "/hello");
    EXPECT_EQ(client.response().status, 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  client.request("GET", "/hello");
  EXPECT_EQ(client.response().status, 200);
}

TEST(Limits, OneConnectionTooManyIs503) {
  HttpServerOptions options;
  options.limits.connections = 3;
  const auto server = testing::serve(testing::simple_routes(), options);
  std::vector<Client> open;
  for (int i = 0; i < 3; ++i) {
    open.emplace_back(server->port());
    open.back().request("GET", "/hello");
    EXPECT_EQ(open.back().response().status, 200);
  }
  Client fourth(server->port());
  fourth.request("GET", "/hello");
  const ClientResponse refused = fourth.response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Retry-After"), "1");
  EXPECT_NE(refused.body.find("too_many_connections"), std::string::npos);
  EXPECT_TRUE(fourth.at_end());
  fourth.close();
  open.pop_back();
  ASSERT_TRUE(eventually([&] { return server->connections() == 2; }));
  Client fifth(server->port());
  fifth.request("GET", "/hello");
  EXPECT_EQ(fifth.response().status, 200);
}

// B36: the number of connections does not decide whether /health answers.
TEST(Limits, HealthAnswersBesideTwoHundredIdleStreams) {
  std::mutex mutex;
  std::vector<std::shared_ptr<Responder>> streams;
  Router router = testing::simple_routes();
  router.add("GET", "/stream", [&](const HttpRequest&, const std::shared_ptr<Responder>& to) {
    to->start_stream(200, "text/event-stream");
    const std::lock_guard lock(mutex);
    streams.push_back(to);
  });
  const auto server = testing::serve(std::move(router));
  std::vector<Client> idle;
  for (int i = 0; i < 200; ++i) {
    idle.emplace_back(server->port());
    ASSERT_TRUE(idle.back().connected());
    idle.back().request("GET", "/stream");
    ClientResponse response;
    idle.back().read_head(response);
    ASSERT_EQ(response.status, 200);
  }
  EXPECT_EQ(server->answers_under_way(), 200u);
  for (int i = 0; i < 10; ++i) {
    Client client(server->port());
    client.request("GET", "/hello");
    EXPECT_EQ(client.response().body, "hello");
  }
  const std::lock_guard lock(mutex);
  for (const auto& stream : streams) EXPECT_TRUE(stream->finish());
  for (Client& client : idle) EXPECT_EQ(client.receive_until("0\r\n\r\n"), "0\r\n\r\n");
}

}  // namespace
}  // namespace quire
