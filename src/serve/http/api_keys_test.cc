#include "serve/http/api_keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "base/temp_folder_testing.h"
#include "serve/http/http_testing.h"

namespace quire {
namespace {

// `printf %s KEY | sha256sum` of "sk-alice" and "sk-bob"; the third is FIPS 180-2's for "abc".
const std::string kAlice = "099295a3784e1bd368dc348843a7398c1931b6b8ec2504c73e91ed2040bdc46c";
const std::string kBob = "36c76b48bb2ee1d9d37140550e9d7ed7d395cf56f41050dc2a72e5291c0011f0";
const std::string kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

class ApiKeysTest : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const ApiKeys>> load(const std::string& text, mode_t mode = 0600) {
    std::ofstream(file_) << text;
    ::chmod(file_.c_str(), mode);
    return ApiKeys::load(file_);
  }
  std::string error(const std::string& text, mode_t mode = 0600) {
    auto keys = load(text, mode);
    return keys ? "" : keys.error().message;
  }

  testing::TempFolder folder_;
  std::filesystem::path file_ = folder_ / "keys";
};

HttpRequest with(const std::string& authorization) {
  HttpRequest request;
  request.headers.push_back({"authorization", authorization});
  return request;
}

TEST_F(ApiKeysTest, FindsTheNameOfAKey) {
  const auto loaded =
      load("# who\n\nalice:" + kAlice + "\n bob : " + kBob + " \r\nbob:" + kAbc + "\n");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const ApiKeys& keys = **loaded;
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys.tenant_of(with("Bearer sk-alice")), "alice");
  EXPECT_EQ(keys.tenant_of(with("bearer  sk-bob")), "bob");
  EXPECT_EQ(keys.tenant_of(with("Bearer abc")), "bob");
  for (const std::string wrong : {"Bearer sk-alic", "Bearer sk-alicee", "Bearer", "Bearer ", "",
                                  "sk-alice", "Basic sk-alice", "Bearer alice"})
    EXPECT_EQ(keys.tenant_of(with(wrong)), std::nullopt) << wrong;
  EXPECT_EQ(keys.tenant_of(with("Bearer " + kAlice)), std::nullopt);
  EXPECT_EQ(keys.tenant_of({}), std::nullopt);
  HttpRequest two = with("Bearer sk-alice");
  two.headers.push_back({"Authorization", "Bearer sk-bob"});
  EXPECT_EQ(keys.tenant_of(two), std::nullopt);
}

TEST_F(ApiKeysTest, RefusesWhatIsNoListOfKeys) {
  EXPECT_NE(error("").find("holds no API key"), std::string::npos);
  const std::string secret = "sk-a-secret-that-somebody-put-here";
  const std::string in_clear = error("# ok\nalice:" + secret + "\n");
  EXPECT_NE(in_clear.find("keys:2 "), std::string::npos) << in_clear;
  EXPECT_EQ(in_clear.find(secret), std::string::npos);
  EXPECT_NE(error("alice\n"), "");
  EXPECT_NE(error(":" + kAlice), "");
  EXPECT_NE(error("al ice:" + kAlice), "");
  EXPECT_NE(error(std::string(65, 'a') + ":" + kAlice), "");
  EXPECT_NE(error("alice:" + kAlice + "0"), "");
  EXPECT_NE(error("alice:" + kAlice.substr(1) + "g"), "");
  EXPECT_NE(error("alice:" + kAlice + "\nbob:" + kAlice).find("keys:2 has the same key"),
            std::string::npos);
  EXPECT_NE(ApiKeys::load(folder_ / "none").error().message.find("No such file"),
            std::string::npos);
}

TEST_F(ApiKeysTest, RefusesAFileThatOthersCanWrite) {
  const std::string text = "alice:" + kAlice + "\n";
  EXPECT_TRUE(load(text, 0600));
  EXPECT_TRUE(load(text, 0444));
  EXPECT_NE(error(text, 0620).find("chmod go-w"), std::string::npos);
  EXPECT_NE(error(text, 0602), "");
}

TEST_F(ApiKeysTest, TheServerAsksForThem) {
  HttpServerOptions options;
  options.keys = *load("alice:" + kAlice + "\n");
  Router router;
  const auto handler = [](const HttpRequest& request, const std::shared_ptr<Responder>& to) {
    to->respond(200, "text/plain", "for " + request.tenant);
  };
  router.add("POST", "/private", handler);
  router.add("GET", "/health", handler, {.needs_key = false});
  const auto server = testing::serve(std::move(router), options);
  testing::Client client(server->port());
  client.request("POST", "/private", {}, "Authorization: Bearer sk-alice\r\n");
  EXPECT_EQ(client.response().body, "for alice");
  client.request("GET", "/health");
  EXPECT_EQ(client.response().body, "for ");
  for (const std::string header : {"", "Authorization: Bearer sk-bob\r\n"}) {
    client.request("POST", "/private", {}, header);
    const auto response = client.response();
    EXPECT_EQ(response.status, 401);
    EXPECT_EQ(response.header("WWW-Authenticate"), "Bearer");
    EXPECT_NE(response.body.find(R"("code":"invalid_api_key")"), std::string::npos);
    EXPECT_EQ(response.body.find("sk-bob"), std::string::npos);
  }
  // Who has no key does not get to send a body.
  client.send("POST /private HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_EQ(client.response().status, 401);
  EXPECT_TRUE(client.at_end());
}

}  // namespace
}  // namespace quire
