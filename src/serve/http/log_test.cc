#include "serve/http/log.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

namespace quire {
namespace {

std::vector<std::string> lines_of(const LogOptions& base, const std::function<void(Log&)>& use) {
  std::ostringstream stream;
  {
    LogOptions options = base;
    options.stream = &stream;
    Log log(options);
    use(log);
  }
  std::vector<std::string> lines;
  std::istringstream text(stream.str());
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

const RequestRecord kRecord{.id = "req-1",
                            .method = "POST",
                            .path = "/v1/completions",
                            .route = "/v1/completions",
                            .tenant = "alice",
                            .remote = "127.0.0.1:5",
                            .outcome = "ok",
                            .status = 200,
                            .body_bytes = 1234,
                            .seconds = 0.5};

TEST(Log, WritesOneJsonObjectPerRequest) {
  const auto lines = lines_of({.format = LogFormat::kJson}, [](Log& log) { log.request(kRecord); });
  ASSERT_EQ(lines.size(), 1u);
  const auto line = boost::json::parse(lines[0]).as_object();
  EXPECT_EQ(line.at("message"), "request");
  EXPECT_EQ(line.at("level"), "info");
  EXPECT_EQ(line.at("id"), "req-1");
  EXPECT_EQ(line.at("method"), "POST");
  EXPECT_EQ(line.at("path"), "/v1/completions");
  EXPECT_EQ(line.at("status"), 200);
  EXPECT_EQ(line.at("bytes"), 1234);
  EXPECT_EQ(line.at("seconds"), 0.5);
  EXPECT_EQ(line.at("tenant"), "alice");
  EXPECT_EQ(line.at("remote"), "127.0.0.1:5");
  // 2026-11-30T12:00:00.123Z
  EXPECT_EQ(line.at("time").as_string().size(), 24u);
}

TEST(Log, WritesTextToo) {
  const auto lines = lines_of({}, [](Log& log) { log.request(kRecord); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].substr(24),
            " info request id=req-1 method=POST path=/v1/completions status=200 bytes=1234 "
            "seconds=0.500000 tenant=alice remote=127.0.0.1:5 outcome=ok");
}

TEST(Log, NothingThatAClientSendsEndsItsValue) {
  const std::vector<std::string> evil{"/a\n{\"level\":\"error\"}",
                                      "/\"},{\"x\":\"",
                                      "/a\r\nb",
                                      "/\x1b[2J\x07",
                                      "/a status=500",
                                      "/\xc2\x9b"
                                      "31m",
                                      "/\xe2\x80\xa8x",
                                      "/\xff\xfe",
                                      std::string("/a\0b", 4),
                                      "/\\"};
  for (const LogFormat format : {LogFormat::kJson, LogFormat::kText})
    for (const std::string& path : evil) {
      RequestRecord record = kRecord;
      record.path = path;
      record.method = path;
      const auto lines = lines_of({.format = format}, [&](Log& log) { log.request(record); });
      ASSERT_EQ(lines.size(), 1u) << path;
      for (const char c : lines[0]) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
      EXPECT_EQ(lines[0].find("\xc2\x9b"), std::string::npos);
      EXPECT_EQ(lines[0].find("\xe2\x80\xa8"), std::string::npos);
      if (format == LogFormat::kText) {
        const std::size_t at = lines[0].find(" path=\"");
        ASSERT_NE(at, std::string::npos) << lines[0];
        continue;
      }
      const auto line = boost::json::parse(lines[0]).as_object();
      EXPECT_EQ(line.size(), 12u);
      EXPECT_EQ(line.at("level"), "info");
      const bool is_utf8 = path.find('\xff') == std::string::npos;
      EXPECT_EQ(std::string(line.at("path").as_string()),
                is_utf8 ? path : "/\xef\xbf\xbd\xef\xbf\xbd");
    }
}

TEST(Log, CutsWhatIsTooLong) {
  RequestRecord record = kRecord;
  const std::string path = "/" + std::string(10'000, 'x');
  record.path = path;
  const auto lines = lines_of({}, [&](Log& log) { log.request(record); });
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_LT(lines[0].size(), 1500u);
}

TEST(Log, KeepsToItsLevel) {
  const auto use = [](Log& log) {
    log.event(LogLevel::kDebug, "d");
    log.request(kRecord);
    RequestRecord failed = kRecord;
    failed.status = 500;
    log.request(failed);
    RequestRecord cut = kRecord;
    cut.outcome = "too_slow";
    log.request(cut);
    log.event(LogLevel::kError, "e", {{"reason", "why not"}, {"n", std::uint64_t{3}}});
  };
  EXPECT_EQ(lines_of({.level = LogLevel::kDebug}, use).size(), 5u);
  EXPECT_EQ(lines_of({.level = LogLevel::kInfo}, use).size(), 4u);
  EXPECT_EQ(lines_of({.level = LogLevel::kWarning}, use).size(), 3u);
  const auto errors = lines_of({.level = LogLevel::kError}, use);
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].substr(24), " error e reason=\"why not\" n=3");
  EXPECT_TRUE(lines_of({.level = LogLevel::kOff}, use).empty());
}

TEST(Log, HasNamesForLevelsAndFormats) {
  EXPECT_EQ(*parse_log_level("warning"), LogLevel::kWarning);
  EXPECT_EQ(*parse_log_format("json"), LogFormat::kJson);
  EXPECT_EQ(parse_log_level("loud").error().message,
            "there is no log level \"loud\": it is debug, info, warning, error or off");
  EXPECT_FALSE(parse_log_format("xml"));
}

}  // namespace
}  // namespace quire
