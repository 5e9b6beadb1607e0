#include "serve/http/request_parser.h"

#include <gtest/gtest.h>

#include <string>

namespace quire::http {
namespace {

using State = RequestParser::State;

struct Parsed {
  State state;
  int status;  // of the failure; 0: none
  HttpRequest request;
  std::string rest;
};

/// All of `bytes` in pieces of `step`.
Parsed parse(std::string bytes, std::size_t step, const HttpLimits& limits = {}) {
  RequestParser parser(limits);
  std::string inbox;
  std::size_t at = 0;
  State state = State::kHead;
  for (;;) {
    const State before = state;
    state = parser.feed(inbox);
    if (state == State::kDone || state == State::kFailed) break;
    if (state != before && !inbox.empty()) continue;  // it stops at the end of a head
    if (at >= bytes.size()) break;
    inbox += bytes.substr(at, step);
    at += step;
  }
  return {state, state == State::kFailed ? parser.failure().head.status : 0, parser.request(),
          inbox + (at < bytes.size() ? bytes.substr(at) : "")};
}

TEST(RequestParser, ReadsARequestHoweverItIsCut) {
  const std::string bytes =
      "POST /v1/a%20b?x=1&y=a+%26b&flag HTTP/1.1\r\nHost: h\r\nX-Thing:  some value \r\n"
      "content-length: 5\r\n\r\nhelloGET";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    const Parsed parsed = parse(bytes, step);
    ASSERT_EQ(parsed.state, State::kDone) << step;
    EXPECT_EQ(parsed.request.method, "POST");
    EXPECT_EQ(parsed.request.path, "/v1/a b");
    EXPECT_EQ(parsed.request.parameter("x"), "1");
    EXPECT_EQ(parsed.request.parameter("y"), "a &b");
    EXPECT_EQ(parsed.request.parameter("flag"), "");
    EXPECT_EQ(parsed.request.parameter("z"), std::nullopt);
    EXPECT_EQ(parsed.request.header("x-tHING"), "some value");
    EXPECT_EQ(parsed.request.body, "hello");
    EXPECT_EQ(parsed.rest, "GET");
  }
}

TEST(RequestParser, ReadsChunksAndForgetsTrailers) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5\r\nhello\r\n1;name=value\r\n \r\n0005\r\nworld\r\n0\r\nAuthorization: Bearer "
      "x\r\n\r\nnext";
  for (std::size_t step = 1; step <= bytes.size(); ++step) {
    const Parsed parsed = parse(bytes, step);
    ASSERT_EQ(parsed.state, State::kDone) << step;
    EXPECT_EQ(parsed.request.body, "hello world");
    EXPECT_EQ(parsed.request.header("Authorization"), std::nullopt);
    EXPECT_EQ(parsed.rest, "next");
  }
}

TEST(RequestParser, ReadsAnEmptyChunkedBodyHoweverItIsCut) {
  const std::string bytes =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (std::size_t step = 1; step <= bytes.size(); ++step)
    EXPECT_EQ(parse(bytes, step).state, State::kDone) << step;
}

TEST(RequestParser, TakesEmptyLinesBeforeARequest) {
  const Parsed parsed = parse("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 1);
  EXPECT_EQ(parsed.state, State::kDone);
}

TEST(RequestParser, TakesTheAbsoluteForm) {
  const Parsed parsed = parse("GET http://host:80/a?b=c HTTP/1.1\r\nHost: h\r\n\r\n", 100);
  EXPECT_EQ(parsed.request.path, "/a");
  EXPECT_EQ(parsed.request.parameter("b"), "c");
}

TEST(RequestParser, RefusesWhatIsMalformed) {
  const struct {
    int status;
    std::string bytes;
  } cases[] = {
      {400, "\x16\x03\x01\x02\x00\x01\r\n\r\n"},  // a TLS client at the wrong port
      {400, "GET /\r\nHost: h\r\n\r\n"},
      {400, "G@T / HTTP/1.1\r\nHost: h\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\n\r\n"},                        // no host
      {400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"},  // two
      {400, "GET / HTTP/1.1\r\nHost: h\r\nbad name: x\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: h\r\nname : x\r\n\r\n"},
      {400, "GET / HTTP/1.1\r\nHost: h\r\na: x\x01y\r\n\r\n"},
      {400, "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n"},
      {400, "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n"},
      {400, "GET /a?b=%4 HTTP/1.1\r\nHost: h\r\n\r\n"},
      {400, "GET a HTTP/1.1\r\nHost: h\r\n\r\n"},
      {400, "GET ftp://host/ HTTP/1.1\r\nHost: h\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5x\r\n\r\nhello"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -5\r\n\r\nhello"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"},
      {400, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n"},
      {417, "POST / HTTP/1.1\r\nHost: h\r\nExpect: wonders\r\nContent-Length: 1\r\n\r\n"},
      {505, "GET / HTTP/2.0\r\nHost: h\r\n\r\n"},
      {505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"},
      {505, "GET / HTTP/0.9\r\n\r\n"},
  };
  for (const auto& [status, bytes] : cases)
    for (const std::size_t step : {bytes.size(), std::size_t{1}}) {
      const Parsed parsed = parse(bytes, step);
      EXPECT_EQ(parsed.state, State::kFailed) << bytes;
      EXPECT_EQ(parsed.status, status) << bytes;
    }
}

// Two programs that see different ends of a request can be made to see different requests.
TEST(RequestParser, RefusesTwoWaysToSayHowLongABodyIs) {
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const std::string headers :
       {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: identity\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: gzip\r\n"}) {
    const Parsed parsed = parse(start + headers + "\r\n0\r\n\r\n", 1000);
    EXPECT_EQ(parsed.state, State::kFailed) << headers;
    EXPECT_TRUE(parsed.status == 400 || parsed.status == 501) << headers << parsed.status;
  }
  const Parsed old = parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1000);
  EXPECT_EQ(old.status, 501);
}

TEST(RequestParser, LimitsTheHead) {
  const HttpLimits limits{.header_bytes = 1000};
  const std::string start = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (const std::size_t step : {std::size_t{7}, std::size_t{100'000}}) {
    const std::string fits = start + "a: " + std::string(900, 'x') + "\r\n\r\n";
    EXPECT_EQ(parse(fits, step, limits).state, State::kDone);
    EXPECT_EQ(parse(start + "a: " + std::string(1000, 'x') + "\r\n\r\n", step, limits).status, 431);
    EXPECT_EQ(parse(start + "a: " + std::string(100'000, 'x'), step, limits).status, 431);
    EXPECT_EQ(parse("GET /" + std::string(100'000, 'x'), step, limits).status, 431);
    std::string many = start;
    for (int i = 0; i < 100'000; ++i) many += "a:\r\n";
    EXPECT_EQ(parse(many, step, limits).status, 431);
  }
}

TEST(RequestParser, CountsTheHeadToTheByteHoweverItIsCut) {
  const std::string start = "GET / HTTP/1.1\r\nHost: h\r\na: ";
  const std::size_t fill = 200 - start.size() - 4;
  for (std::size_t step = 1; step <= 210; ++step) {
    const std::string fits = start + std::string(fill, 'x') + "\r\n\r\n";
    EXPECT_EQ(parse(fits, step, {.header_bytes = 200}).state, State::kDone) << step;
    EXPECT_EQ(parse(fits, step, {.header_bytes = 199}).status, 431) << step;
    EXPECT_EQ(parse(fits + "GET /", step, {.header_bytes = 200}).state, State::kDone) << step;
  }
}

TEST(RequestParser, LimitsTheBody) {
  const HttpLimits limits{.header_bytes = 1000, .body_bytes = 10};
  const std::string start = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const std::size_t step : {std::size_t{1}, std::size_t{100'000}}) {
    EXPECT_EQ(parse(start + "Content-Length: 10\r\n\r\n0123456789", step, limits).state,
              State::kDone);
    EXPECT_EQ(parse(start + "Content-Length: 11\r\n\r\n", step, limits).status, 413);
    EXPECT_EQ(parse(start + "Content-Length: 1000000000\r\n\r\n", step, limits).status, 413);
    const std::string chunked = start + "Transfer-Encoding: chunked\r\n\r\n";
    EXPECT_EQ(parse(chunked + "5\r\nhello\r\n5\r\nworld\r\n0\r\n\r\n", step, limits).state,
              State::kDone);
    EXPECT_EQ(parse(chunked + "5\r\nhello\r\n6\r\nworlds\r\n0\r\n\r\n", step, limits).status, 413);
    EXPECT_EQ(parse(chunked + "40000000\r\n", step, limits).status, 413);
    const int status =
        parse(chunked + "fffffffffffffffff\r\n", step, limits).status;  // no 64-bit number
    EXPECT_TRUE(status == 400 || status == 413) << status;
    // What describes chunks is limited too.
    EXPECT_EQ(parse(chunked + "1;" + std::string(5000, 'x'), step, limits).status, 400);
    EXPECT_EQ(parse(chunked + "0\r\na: " + std::string(5000, 'x'), step, limits).status, 400);
  }
}

TEST(RequestParser, KnowsWhoWantsToStayAndWhoWaits) {
  const HttpLimits limits;
  const auto parsed = [&](std::string bytes) {
    auto parser = std::make_unique<RequestParser>(limits);
    parser->feed(bytes);
    return parser;
  };
  EXPECT_TRUE(parsed("GET / HTTP/1.1\r\nHost: h\r\n\r\n")->keep_alive());
  EXPECT_FALSE(parsed("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")->keep_alive());
  EXPECT_FALSE(parsed("GET / HTTP/1.0\r\n\r\n")->keep_alive());
  EXPECT_TRUE(parsed("POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n"
                     "Content-Length: 1\r\n\r\n")
                  ->expects_continue());
  EXPECT_FALSE(
      parsed("GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n")->expects_continue());
}

TEST(RequestIds, ThoseOfClientsAreChecked) {
  EXPECT_TRUE(valid_request_id("abc-123_X.y:z"));
  EXPECT_TRUE(valid_request_id(std::string(128, 'a')));
  EXPECT_FALSE(valid_request_id(""));
  EXPECT_FALSE(valid_request_id(std::string(129, 'a')));
  EXPECT_FALSE(valid_request_id("a b"));
  EXPECT_FALSE(valid_request_id("a\"b"));
  EXPECT_FALSE(valid_request_id("\xc3\xa4"));
  EXPECT_TRUE(valid_request_id(new_request_id()));
  EXPECT_NE(new_request_id(), new_request_id());
}

}  // namespace
}  // namespace quire::http
