// How a server ends: what is under way is finished, what is new is refused, nothing is left.
#include <dirent.h>
#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "serve/http/http_server.h"
#include "serve/http/http_testing.h"

namespace quire {
namespace {

using std::chrono::steady_clock;
using testing::Client;
using testing::ClientResponse;
using testing::eventually;

std::size_t open_files() {
  DIR* folder = ::opendir("/proc/self/fd");
  std::size_t n = 0;
  while (::readdir(folder) != nullptr) ++n;
  ::closedir(folder);
  return n;
}

std::size_t threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Threads:")) return std::stoul(line.substr(8));
  return 0;
}

struct Holder {
  Router routes() {
    Router router = testing::simple_routes();
    router.add("GET", "/held", [this](const HttpRequest&, const std::shared_ptr<Responder>& to) {
      to->on_disconnect([this] { ++disconnects; });
      const std::lock_guard lock(mutex);
      held.push_back(to);
    });
    router.add("GET", "/health",
               [](const HttpRequest&, const std::shared_ptr<Responder>& to) {
                 to->respond(200, "text/plain", "alive");
               },
               {.needs_key = false, .while_draining = true});
    return router;
  }
  std::size_t size() {
    const std::lock_guard lock(mutex);
    return held.size();
  }
  void clear() {
    const std::lock_guard lock(mutex);
    held.clear();
  }

  std::mutex mutex;
  std::vector<std::shared_ptr<Responder>> held;
  std::atomic<int> disconnects{0};
};

TEST(Drain, FinishesWhatRunsAndRefusesWhatIsNew) {
  Holder holder;
  const auto server = testing::serve(holder.routes());
  Client running(server->port()), open(server->port());
  open.request("GET", "/hello");
  EXPECT_EQ(open.response().status, 200);
  running.request("GET", "/held");
  ASSERT_TRUE(eventually([&] { return holder.size() == 1; }));
  holder.held[0]->start_stream(200, "text/event-stream");

  server->drain();
  EXPECT_FALSE(server->wait_drained(steady_clock::now() + std::chrono::milliseconds(20)));
  open.request("GET", "/health");
  ClientResponse response = open.response();
  EXPECT_EQ(response.body, "alive");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(eventually([&] { return !Client(server->port()).connected(); }));

  EXPECT_TRUE(holder.held[0]->write("data: last\n\n"));
  EXPECT_TRUE(holder.held[0]->finish());
  response = running.response();
  EXPECT_EQ(response.body, "data: last\n\n");
  EXPECT_TRUE(response.whole);
  EXPECT_TRUE(server->wait_drained(steady_clock::now() + testing::kPatience));
  EXPECT_EQ(holder.disconnects, 0);
}

TEST(Drain, AnswersNewRequestsOfOpenConnectionsWith503) {
  Holder holder;
  const auto server = testing::serve(holder.routes());
  Client open(server->port()), half(server->port());
  open.request("GET", "/hello");
  EXPECT_EQ(open.response().status, 200);
  half.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nha");
  ASSERT_TRUE(eventually([&] { return server->connections() == 2; }));
  server->drain();
  open.request("GET", "/hello");
  const ClientResponse response = open.response();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_NE(response.header("Retry-After"), "");
  EXPECT_NE(response.body.find("shutting_down"), std::string::npos);
  EXPECT_TRUE(open.at_end());
  half.send("lf");  // its body was not here yet when the drain began
  EXPECT_EQ(half.response().status, 503);
  EXPECT_TRUE(server->wait_drained(steady_clock::now() + testing::kPatience));
}

TEST(Drain, StopCutsWhatIsLeftAndTellsItsMakers) {
  Holder holder;
  const auto server = testing::serve(holder.routes());
  std::vector<Client> clients;
  for (int i = 0; i < 5; ++i) {
    clients.emplace_back(server->port());
    clients.back().request("GET", "/held");
  }
  ASSERT_TRUE(eventually([&] { return holder.size() == 5; }));
  holder.held[0]->start_stream(200, "text/plain");
  server->stop();
  EXPECT_EQ(holder.disconnects, 5);
  EXPECT_EQ(server->connections(), 0u);
  EXPECT_TRUE(server->wait_drained(steady_clock::now()));
  for (const auto& to : holder.held) EXPECT_FALSE(to->write("x"));
  for (Client& client : clients) EXPECT_FALSE(client.response().whole);
}

TEST(Drain, RespondersMayOutliveTheServer) {
  Holder holder;
  {
    const auto server = testing::serve(holder.routes());
    Client client(server->port());
    client.request("GET", "/held");
    ASSERT_TRUE(eventually([&] { return holder.size() == 1; }));
  }
  EXPECT_FALSE(holder.held[0]->respond(200, "text/plain", "x"));
  holder.clear();
}

// Writers that go on while connections and the server end under them.
TEST(Drain, NothingIsLeftOfManyServers) {
  {  // what is made once stays: let it be made
    const auto server = testing::serve(testing::simple_routes());
    Client client(server->port());
    client.request("GET", "/hello");
    client.response();
  }
  const std::size_t files = open_files(), n_threads = threads();
  for (int round = 0; round < 20; ++round) {
    Holder holder;
    std::atomic<bool> ended{false};
    auto server = testing::serve(holder.routes());
    std::vector<Client> clients;
    for (int i = 0; i < 10; ++i) {
      clients.emplace_back(server->port());
      clients.back().request("GET", i % 3 == 0 ? "/hello" : "/held");
    }
    std::thread engine([&] {
      while (!ended) {
        std::vector<std::shared_ptr<Responder>> now;
        {
          const std::lock_guard lock(holder.mutex);
          now = holder.held;
        }
        for (const auto& to : now) {
          to->start_stream(200, "text/event-stream");
          to->write("data: x\n\n");
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    clients[1].reset();
    clients[2].close();
    if (round % 2 == 0) server->stop();
    server.reset();
    ended = true;
    engine.join();
  }
  EXPECT_EQ(open_files(), files);
  EXPECT_EQ(threads(), n_threads);
}

}  // namespace
}  // namespace quire
