#include "serve/http/router.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

void nothing(const HttpRequest&, const std::shared_ptr<Responder>&) {}

TEST(Router, MatchesMethodAndPathExactly) {
  Router router;
  router.add("GET", "/v1/models", nothing);
  router.add("POST", "/v1/models", nothing, {.needs_key = false});
  ASSERT_NE(router.find("GET", "/v1/models").route, nullptr);
  EXPECT_TRUE(router.find("GET", "/v1/models").route->options.needs_key);
  EXPECT_FALSE(router.find("POST", "/v1/models").route->options.needs_key);
  for (const std::string path : {"/v1/models/", "/v1/model", "/V1/models", "/", "*", ""})
    EXPECT_TRUE(router.find("GET", path).allow.empty()) << path;
  EXPECT_EQ(router.find("PUT", "/v1/models").route, nullptr);
  EXPECT_EQ(router.find("PUT", "/v1/models").allow, "GET, POST, HEAD, OPTIONS");
  EXPECT_EQ(router.find("get", "/v1/models").route, nullptr);
}

TEST(Router, GetAnswersHeadUnlessThereIsOne) {
  Router router;
  router.add("GET", "/a", nothing);
  router.add("HEAD", "/b", nothing);
  router.add("GET", "/b", nothing);
  EXPECT_EQ(router.find("HEAD", "/a").route->method, "GET");
  EXPECT_EQ(router.find("HEAD", "/b").route->method, "HEAD");
  EXPECT_EQ(router.find("PUT", "/b").allow, "HEAD, GET, OPTIONS");
}

TEST(Router, WhatIsNamedInFullGoesBeforeAFolder) {
  Router router;
  router.add("GET", "/v1/models/*", nothing);
  router.add("GET", "/v1/models/best", nothing);
  EXPECT_EQ(router.find("GET", "/v1/models/best").route->path, "/v1/models/best");
  EXPECT_EQ(router.find("GET", "/v1/models/org/name").route->path, "/v1/models/*");
  EXPECT_TRUE(router.find("GET", "/v1/models/").allow.empty());
  EXPECT_TRUE(router.find("GET", "/v1/models").allow.empty());
}

}  // namespace
}  // namespace quire
