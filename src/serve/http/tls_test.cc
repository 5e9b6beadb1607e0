#include <sys/stat.h>

#include <gtest/gtest.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>

#include "base/temp_folder_testing.h"
#include "serve/http/http_server.h"
#include "serve/http/http_testing.h"

namespace quire {
namespace {

using testing::Client;
using testing::eventually;

/// Writes a new key and a certificate signed by itself.
void make_certificate(const std::string& certificate_file, const std::string& key_file) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  ASSERT_TRUE(key && certificate);
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_NAME* name = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>("localhost"), -1, -1, 0);
  X509_set_issuer_name(certificate.get(), name);
  ASSERT_NE(X509_sign(certificate.get(), key.get(), EVP_sha256()), 0);
  std::FILE* file = std::fopen(certificate_file.c_str(), "w");
  ASSERT_EQ(PEM_write_X509(file, certificate.get()), 1);
  std::fclose(file);
  file = std::fopen(key_file.c_str(), "w");
  ASSERT_EQ(PEM_write_PrivateKey(file, key.get(), nullptr, nullptr, 0, nullptr, nullptr), 1);
  std::fclose(file);
}

class TlsClient {
 public:
  TlsClient(std::uint16_t port, int newest)
      : tcp_(port), context_(SSL_CTX_new(TLS_client_method())) {
    SSL_CTX_set_min_proto_version(context_, 0);
    SSL_CTX_set_max_proto_version(context_, newest);
    SSL_CTX_set_security_level(context_, 0);  // it may offer what the server has to refuse
    ssl_ = SSL_new(context_);
    SSL_set_fd(ssl_, tcp_.fd());
    static constexpr unsigned char kOffers[] = "\x02h2\x08http/1.1";
    SSL_set_alpn_protos(ssl_, kOffers, sizeof(kOffers) - 1);
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    ERR_clear_error();
  }
  TlsClient(const TlsClient&) = delete;
  TlsClient& operator=(const TlsClient&) = delete;

  bool handshake() { return SSL_connect(ssl_) == 1; }
  SSL* ssl() { return ssl_; }
  Client& tcp() { return tcp_; }
  void send(const std::string& text) {
    EXPECT_EQ(SSL_write(ssl_, text.data(), static_cast<int>(text.size())),
              static_cast<int>(text.size()));
  }
  /// Until `end` has come, or the connection is closed as it should be.
  std::string receive_until(const std::string& end) {
    std::string text;
    char bytes[16384];
    while (end.empty() || text.find(end) == std::string::npos) {
      const int n = SSL_read(ssl_, bytes, sizeof(bytes));
      if (n <= 0) {
        closed_ = SSL_get_error(ssl_, n) == SSL_ERROR_ZERO_RETURN;
        break;
      }
      text.append(bytes, static_cast<std::size_t>(n));
    }
    return text;
  }
  bool closed() const { return closed_; }

 private:
  Client tcp_;
  SSL_CTX* context_;
  SSL* ssl_ = nullptr;
  bool closed_ = false;
};

class Tls : public ::testing::Test {
 protected:
  void SetUp() override {
    make_certificate(certificate_, key_);
    options_.tls_certificate = certificate_;
    options_.tls_key = key_;
    options_.port = 0;
  }
  std::string error() {
    const auto server = HttpServer::start(options_, {});
    return server ? "" : server.error().message;
  }

  testing::TempFolder folder_;
  std::string certificate_ = folder_ / "cert.pem", key_ = folder_ / "key.pem";
  HttpServerOptions options_;
};

TEST_F(Tls, ServesOverVersions12And13Only) {
  const auto server = testing::serve(testing::simple_routes(), options_);
  EXPECT_TRUE(server->url().starts_with("https://127.0.0.1:"));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    TlsClient client(server->port(), version);
    ASSERT_TRUE(client.handshake());
    EXPECT_EQ(SSL_version(client.ssl()), version);
    const unsigned char* protocol = nullptr;
    unsigned n = 0;
    SSL_get0_alpn_selected(client.ssl(), &protocol, &n);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(protocol), n), "http/1.1");
    client.send("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(client.receive_until("hello").ends_with("\r\n\r\nhello"));
    const std::string body(1'000'000, 'x');
    client.send(
        "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 1000000\r\n\r\n");
    client.send(body);
    EXPECT_TRUE(client.receive_until("").ends_with("\r\n\r\n" + body));
    EXPECT_TRUE(client.closed());  // with a close_notify: nobody has cut anything off
  }
  TlsClient old(server->port(), TLS1_1_VERSION);
  EXPECT_FALSE(old.handshake());
}

TEST_F(Tls, NoticesThatAClientLeaves) {
  std::atomic<int> disconnects{0};
  std::mutex mutex;
  std::shared_ptr<Responder> held;
  Router router;
  router.add("GET", "/held", [&](const HttpRequest&, const std::shared_ptr<Responder>& to) {
    to->on_disconnect([&] { ++disconnects; });
    to->start_stream(200, "text/event-stream");
    to->write("data: 1\n\n");
    const std::lock_guard lock(mutex);
    held = to;
  });
  const auto server = testing::serve(std::move(router), options_);
  for (int i = 0; i < 3; ++i) {
    TlsClient client(server->port(), TLS1_3_VERSION);
    ASSERT_TRUE(client.handshake());
    client.send("GET /held HTTP/1.1\r\nHost: h\r\n\r\n");
    client.receive_until("data: 1\n\n");
    if (i == 0) SSL_shutdown(client.ssl());
    if (i == 1) client.tcp().close();
    if (i == 2) client.tcp().reset();
    EXPECT_TRUE(eventually([&] { return disconnects == i + 1; }, std::chrono::seconds(1)));
  }
  EXPECT_TRUE(eventually([&] { return server->connections() == 0; }));
}

TEST_F(Tls, SurvivesWhoSpeaksAnotherProtocolOrNone) {
  options_.limits.header_timeout = std::chrono::milliseconds(1500);
  const auto server = testing::serve(testing::simple_routes(), options_);
  Client plain(server->port()), silent(server->port());
  plain.request("GET", "/hello");
  plain.receive_to_end();
  EXPECT_TRUE(silent.at_end());
  TlsClient client(server->port(), TLS1_3_VERSION);
  EXPECT_TRUE(client.handshake());
}

TEST_F(Tls, SaysWhichFileIsWrong) {
  options_.tls_certificate = folder_ / "none.pem";
  EXPECT_EQ(error().find("cannot use " + options_.tls_certificate + " as a TLS certificate"), 0u)
      << error();
  options_.tls_certificate = certificate_;
  const std::string garbage = folder_ / "garbage.pem";
  std::ofstream(garbage) << "no key\n";
  options_.tls_key = garbage;
  EXPECT_EQ(error().find("cannot use " + garbage + " as the TLS key of " + certificate_), 0u)
      << error();
  const std::string pipe = folder_ / "pipe.pem";  // whose reader would wait for ever
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  options_.tls_key = pipe;
  EXPECT_EQ(error(), "cannot use " + pipe + " for TLS: it is not a regular file");
  // A key of another certificate.
  const std::string other_key = folder_ / "other-key.pem";
  make_certificate(folder_ / "other-cert.pem", other_key);
  options_.tls_key = other_key;
  EXPECT_NE(error().find("key values mismatch"), std::string::npos) << error();
  options_.tls_key.clear();
  EXPECT_EQ(error(), "TLS needs both a certificate file and a key file");
}

}  // namespace
}  // namespace quire
