#include "serve/openai/api_error.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace quire::openai {
namespace {

namespace json = boost::json;

// The shape that OpenAI's reference gives, and its Python package reads.
TEST(ApiError, JsonHasOpenAisShape) {
  const ApiError error = invalid_field("messages[0].content", "invalid_type", "bad \"{}\"", "é");
  EXPECT_EQ(json::parse(to_json(error)),
            json::parse(R"({"error":{"message":"bad \"é\"","type":"invalid_request_error",
                            "param":"messages[0].content","code":"invalid_type"}})"));
  EXPECT_EQ(json::parse(to_json(ApiError{.message = "m", .param = {}, .code = {}})),
            json::parse(R"({"error":{"message":"m","type":"invalid_request_error","param":null,
                            "code":null}})"));
}

// A message may quote bytes of a file or a client.
TEST(ApiError, JsonIsAlwaysUtf8) {
  EXPECT_EQ(json::parse(to_json(ApiError{.message = "a\xFF", .param = "p\xC3", .code = "c"}))
                .at("error")
                .at("message"),
            "a\xEF\xBF\xBD");
}

TEST(ApiError, OverflowSaysBothCounts) {
  const ApiError error = context_exceeded("messages", 5000, 4096);
  EXPECT_EQ(error.http_status, 400);
  EXPECT_EQ(error.code, "context_length_exceeded");
  EXPECT_EQ(error.param, "messages");
  EXPECT_NE(error.message.find("5000"), std::string::npos);
  EXPECT_NE(error.message.find("4096"), std::string::npos);
}

TEST(ApiError, WhoIsAtFaultDecidesTheStatus) {
  const auto status = [](ErrorCode code) { return refusal({code, "m"}).http_status; };
  EXPECT_EQ(status(ErrorCode::kInvalidArgument), 400);
  EXPECT_EQ(status(ErrorCode::kInvalidData), 400);
  EXPECT_EQ(status(ErrorCode::kUnsupported), 400);
  EXPECT_EQ(status(ErrorCode::kOutOfMemory), 400);  // it can never fit
  EXPECT_EQ(status(ErrorCode::kNotFound), 404);
  EXPECT_EQ(status(ErrorCode::kBusy), 429);
  EXPECT_EQ(status(ErrorCode::kUnavailable), 503);
  EXPECT_EQ(status(ErrorCode::kIo), 500);
  EXPECT_EQ(refusal({ErrorCode::kBusy, "m"}).type, "rate_limit_error");
  EXPECT_EQ(refusal({ErrorCode::kBusy, "the queue is full"}).message, "the queue is full");
  // Once a request was taken, nothing that happens is its fault.
  EXPECT_EQ(failure({ErrorCode::kInvalidData, "m"}).http_status, 500);
  EXPECT_EQ(failure({ErrorCode::kOutOfMemory, "m"}).http_status, 500);
  EXPECT_EQ(failure({ErrorCode::kUnavailable, "m"}).http_status, 503);
  EXPECT_EQ(failure({ErrorCode::kIo, "m"}).type, "server_error");
}

}  // namespace
}  // namespace quire::openai
