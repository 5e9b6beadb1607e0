// What happens when clients leave, read slowly or say little, in each phase of a request.
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "serve/http/http_server.h"
#include "serve/http/http_testing.h"

namespace quire {
namespace {

using testing::Client;
using testing::ClientResponse;
using testing::eventually;

/// An engine that answers when the test wants it to.
class Held {
 public:
  void take(std::string path, std::shared_ptr<Responder> to) {
    to->on_disconnect([this] { ++disconnects; });
    const std::lock_guard lock(mutex_);
    held_.emplace(std::move(path), std::move(to));
  }
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return held_.size();
  }
  /// Waits for the request to `path` and takes it out.
  std::shared_ptr<Responder> get(const std::string& path) {
    std::shared_ptr<Responder> found;
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex_);
      const auto at = held_.find(path);
      if (at == held_.end()) return false;
      found = std::move(at->second);
      held_.erase(at);
      return true;
    }));
    return found;
  }
  Router routes() {
    Router router = testing::simple_routes();
    router.add("GET", "/held/*", [this](HttpRequest request, std::shared_ptr<Responder> to) {
      take(request.path, std::move(to));
    });
    router.add("POST", "/held/*", [this](HttpRequest request, std::shared_ptr<Responder> to) {
      take(request.path, std::move(to));
    });
    return router;
  }

  std::atomic<int> disconnects{0};

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Responder>> held_;
};

enum class Leaving { kClose, kReset, kHalfClose };

void leave(Client& client, Leaving how) {
  if (how == Leaving::kClose) client.close();
  if (how == Leaving::kReset) client.reset();
  if (how == Leaving::kHalfClose) client.half_close();
}

constexpr Leaving kWays[] = {Leaving::kClose, Leaving::kReset, Leaving::kHalfClose};

TEST(Disconnect, WhileTheRequestIsQueued) {
  for (const Leaving how : kWays) {
    Held held;
    const auto server = testing::serve(held.routes());
    Client client(server->port());
    client.request("POST", "/held/a", "body");
    const auto to = held.get("/held/a");
    EXPECT_FALSE(to->gone());
    leave(client, how);
    EXPECT_TRUE(eventually([&] { return held.disconnects == 1; }, std::chrono::seconds(1)));
    EXPECT_TRUE(to->gone());
    EXPECT_FALSE(to->respond(200, "text/plain", "nobody hears this"));
    EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
    EXPECT_EQ(held.disconnects, 1);
  }
}

TEST(Disconnect, BeforeTheFirstTokenAndInTheMiddleOfAStream) {
  for (const Leaving how : kWays)
    for (const bool after_some : {false, true}) {
      Held held;
      const auto server = testing::serve(held.routes());
      Client client(server->port());
      client.request("GET", "/held/a");
      const auto to = held.get("/held/a");
      EXPECT_TRUE(to->start_stream(200, "text/event-stream"));
      if (after_some) {
        EXPECT_TRUE(to->write("data: first\n\n"));
        EXPECT_NE(client.receive_until("first"), "");
      }
      leave(client, how);
      EXPECT_TRUE(eventually([&] { return held.disconnects == 1; }, std::chrono::seconds(1)));
      EXPECT_FALSE(to->write("more"));
      EXPECT_FALSE(to->finish());
      EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
    }
}

TEST(Disconnect, WhileTheBodyIsSent) {
  Held held;
  std::atomic<int> ended{0};
  HttpServerOptions options;
  options.on_request = [&](const RequestRecord& record) {
    ended += record.status == 0 && record.outcome == "disconnected";
  };
  const auto server = testing::serve(held.routes(), options);
  Client client(server->port());
  client.send("POST /held/a HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf");
  client.close();
  EXPECT_TRUE(eventually([&] { return server->connections() == 0 && ended == 1; }));
  EXPECT_EQ(held.size(), 0u);
}

TEST(Disconnect, IsNotReportedOfAFinishedAnswer) {
  Held held;
  const auto server = testing::serve(held.routes());
  for (int i = 0; i < 20; ++i) {
    Client client(server->port());
    client.request("GET", "/held/a");
    const auto to = held.get("/held/a");
    to->respond(200, "text/plain", "x");
    client.close();
  }
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
  EXPECT_EQ(held.disconnects, 0);
}

TEST(Disconnect, IsReportedToWhoAsksTooLate) {
  Held held;
  const auto server = testing::serve(held.routes());
  Client client(server->port());
  client.request("GET", "/held/a");
  const auto to = held.get("/held/a");
  client.close();
  ASSERT_TRUE(eventually([&] { return to->gone(); }));
  bool called = false;
  to->on_disconnect([&] { called = true; });
  EXPECT_TRUE(called);
}

// A callback may own the responder that owns the callback.
TEST(Disconnect, ACallbackThatHoldsItsResponderLetsGoOfIt) {
  for (const bool finishes : {false, true}) {
    std::weak_ptr<Responder> watched;
    {
      Held held;
      const auto server = testing::serve(held.routes());
      Client client(server->port());
      client.request("GET", "/held/a");
      auto to = held.get("/held/a");
      watched = to;
      to->on_disconnect([to] { EXPECT_TRUE(to->gone()); });
      if (finishes) {
        EXPECT_TRUE(to->respond(200, "text/plain", "x"));
        EXPECT_EQ(client.response().body, "x");
      }
      to.reset();
      client.close();
      EXPECT_TRUE(eventually([&] { return watched.expired(); }));
    }
  }
}

// The end of the client's side is the end of the client, unless the answer is there already.
TEST(Disconnect, AHalfClosingClientGetsTheAnswerThatNeedsNoTime) {
  Held held;
  const auto server = testing::serve(held.routes());
  for (int i = 0; i < 50; ++i) {
    Client client(server->port());
    client.request("POST", "/echo", "quick");
    client.half_close();
    const ClientResponse response = client.response();
    EXPECT_EQ(response.body, "quick");
    EXPECT_TRUE(client.at_end());
  }
  Client client(server->port());
  client.request("GET", "/held/a");
  const auto to = held.get("/held/a");
  EXPECT_TRUE(to->respond(200, "text/plain", std::string(500'000, 'x')));
  client.half_close();
  EXPECT_EQ(client.response().body.size(), 500'000u);
}

TEST(Disconnect, AStreamWhoseMakerDiesIsSeenToBeCut) {
  Held held;
  const auto server = testing::serve(held.routes());
  Client client(server->port());
  client.request("GET", "/held/a");
  auto to = held.get("/held/a");
  to->start_stream(200, "text/event-stream");
  to->write("data: 1\n\n");
  to.reset();
  const ClientResponse response = client.response();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "data: 1\n\n");
  EXPECT_FALSE(response.whole);
  EXPECT_TRUE(client.at_end());
  EXPECT_EQ(held.disconnects, 0);
}

TEST(SlowReader, IsCutOffAtTheLimitAndNobodyElseIs) {
  Held held;
  std::mutex mutex;
  std::vector<std::string> outcomes;
  HttpServerOptions options;
  options.limits.unsent_bytes = 100'000;
  options.on_request = [&](const RequestRecord& record) {
    const std::lock_guard lock(mutex);
    outcomes.emplace_back(record.outcome);
  };
  const auto server = testing::serve(held.routes(), options);
  Client slow(server->port(), 4096);
  slow.request("GET", "/held/slow");
  const auto to = held.get("/held/slow");
  to->start_stream(200, "text/event-stream");
  const std::string piece(1000, 'x');
  std::size_t written = 0;
  // The system's buffers come on top of the limit, but have an end too.
  while (written < 50'000'000 && to->write(piece)) {
    written += piece.size();
    if (written % 50'000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(written, 2'000'000u);
  EXPECT_GE(written, 100'000u);
  EXPECT_TRUE(eventually([&] { return held.disconnects == 1; }, std::chrono::seconds(1)));
  EXPECT_FALSE(to->finish());
  Client other(server->port());
  other.request("GET", "/hello");
  EXPECT_EQ(other.response().body, "hello");
  EXPECT_TRUE(eventually([&] {
    const std::lock_guard lock(mutex);
    return outcomes == std::vector<std::string>{"too_slow", "ok"} ||
           outcomes == std::vector<std::string>{"ok", "too_slow"};
  }));
}

TEST(SlowReader, WhoTakesNothingForTooLongIsCutOff) {
  Held held;
  HttpServerOptions options;
  options.limits.write_timeout = std::chrono::milliseconds(100);
  const auto server = testing::serve(held.routes(), options);
  Client client(server->port(), 4096);
  client.request("GET", "/held/a");
  const auto to = held.get("/held/a");
  to->start_stream(200, "text/plain");
  to->write(std::string(5'000'000, 'x'));
  EXPECT_TRUE(eventually([&] { return held.disconnects == 1; }));
}

TEST(SlowReader, AWholeAnswerIsNotLimitedBySize) {
  Held held;
  const auto server = testing::serve(held.routes());
  Client client(server->port());
  client.request("GET", "/held/a");
  const auto to = held.get("/held/a");
  EXPECT_TRUE(to->respond(200, "text/plain", std::string(8'000'000, 'x')));
  EXPECT_EQ(client.response().body.size(), 8'000'000u);
}

}  // namespace
}  // namespace quire
