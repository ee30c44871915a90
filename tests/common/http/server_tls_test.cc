// The server's behaviour with TLS: handshakes and what may go wrong in them, goodbyes, new certificates. server_test.cc
// checks that answers are the same over both wires, server_stream_test.cc that streams are.
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "tests/common/http/server_fixture.h"

namespace roost {
namespace {

constexpr std::string_view kGetAndClose = "GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

class TlsServerTest : public HttpServerFixture {
 protected:
  TlsServerTest() : HttpServerFixture(Wire::kTls) {
    client_context_ = MakeClientContext(SharedAuthority().certificate_file());  // to be changed by a test
    options_.on_handshake_failed = [this](HandshakeFailure failure) {
      const std::lock_guard lock(mutex_);
      failures_.push_back(failure);
      changed_.notify_all();
    };
  }
  ~TlsServerTest() override { server_.reset(); }

  HandshakeFailure TakeFailure() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [this] { return !failures_.empty(); }));
    const HandshakeFailure failure = failures_.empty() ? HandshakeFailure::kTimeout : failures_.front();
    failures_.clear();
    return failure;
  }
  // Without TLS.
  [[nodiscard]] RawClient ConnectPlain() const { return RawClient(server_->port()); }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<HandshakeFailure> failures_;  // guarded by mutex_
};

std::string NameOfServer(RawClient& client) {
  X509* const certificate = SSL_get1_peer_certificate(client.tls());
  char name[64] = {};
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, name, sizeof(name));
  X509_free(certificate);
  return name;
}

// ---- handshakes ----

TEST_F(TlsServerTest, SpeaksTls13AndChoosesHttp11) {
  Serve(Echo);
  const unsigned char offered[] = "\x02h2\x08http/1.1";
  SSL_CTX_set_alpn_protos(client_context_.get(), offered, sizeof(offered) - 1);
  RawClient client = Connect();
  ASSERT_TRUE(client.connected()) << client.tls_error();
  EXPECT_STREQ(SSL_get_version(client.tls()), "TLSv1.3");
  const unsigned char* chosen = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(client.tls(), &chosen, &size);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(chosen), size), "http/1.1");
  client.Write(kGet);
  EXPECT_EQ(client.ReadResponse().status, 200);
}

TEST_F(TlsServerTest, RefusesAClientThatWantsHttp2Alone) {
  Serve(Echo);
  const unsigned char offered[] = "\x02h2";
  SSL_CTX_set_alpn_protos(client_context_.get(), offered, sizeof(offered) - 1);
  EXPECT_FALSE(Connect().connected());
  EXPECT_EQ(TakeFailure(), HandshakeFailure::kProtocol);
}

TEST_F(TlsServerTest, SpeaksTls12WithForwardSecrecyOnly) {
  Serve(Echo);
  SSL_CTX_set_max_proto_version(client_context_.get(), TLS1_2_VERSION);
  {
    RawClient client = Connect();
    ASSERT_TRUE(client.connected()) << client.tls_error();
    EXPECT_EQ(std::string(SSL_get_cipher_name(client.tls())).rfind("ECDHE-", 0), 0U);
    client.Write(kGet);
    EXPECT_EQ(client.ReadResponse().status, 200);
  }
  for (const char* weak : {"AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA"}) {
    SSL_CTX_set_cipher_list(client_context_.get(), weak);
    EXPECT_FALSE(Connect().connected()) << weak;
    EXPECT_EQ(TakeFailure(), HandshakeFailure::kProtocol);
  }
}

TEST_F(TlsServerTest, RefusesTls11) {
  Serve(Echo);
  SSL_CTX_set_security_level(client_context_.get(), 0);  // so that the client offers it at all
  SSL_CTX_set_min_proto_version(client_context_.get(), TLS1_VERSION);
  SSL_CTX_set_max_proto_version(client_context_.get(), TLS1_1_VERSION);
  const RawClient client = Connect();
  EXPECT_FALSE(client.connected());
  EXPECT_NE(client.tls_error().find("protocol version"), std::string::npos) << client.tls_error();
  EXPECT_EQ(TakeFailure(), HandshakeFailure::kProtocol);
}

TEST_F(TlsServerTest, ResumesASession) {
  Serve(Echo);
  SSL_SESSION* session = nullptr;
  {
    RawClient first = Connect();
    first.Write(kGet);
    EXPECT_EQ(first.ReadResponse().status, 200);  // tickets come with it
    EXPECT_FALSE(SSL_session_reused(first.tls()));
    session = SSL_get1_session(first.tls());
    first.SayCloseNotify();
  }
  RawClient second(server_->port(), 0, client_context_.get(), session);
  SSL_SESSION_free(session);
  EXPECT_TRUE(SSL_session_reused(second.tls()));
  second.Write(kGet);
  EXPECT_EQ(second.ReadResponse().status, 200);
}

TEST_F(TlsServerTest, AnswersPlainHttpWithAHint) {
  std::atomic<int> refused = 0;
  options_.on_refused = [&](const Error&) { ++refused; };
  Serve(Echo);
  RawClient client = ConnectPlain();
  client.Write(kGet);
  const RawResponse response = client.ReadResponse();
  EXPECT_EQ(response.status, 400);
  EXPECT_NE(response.body.find("this port speaks TLS: use https://"), std::string::npos) << response.body;
  EXPECT_EQ(response.Header("connection"), "close");
  EXPECT_TRUE(client.AtEnd());
  EXPECT_EQ(TakeFailure(), HandshakeFailure::kPlainHttp);
  EXPECT_EQ(refused, 1);
}

TEST_F(TlsServerTest, ClosesOnGarbage) {
  Serve(Echo);
  RawClient client = ConnectPlain();
  client.Write(std::string(100, '\x01'));
  client.ReadToEnd();
  EXPECT_EQ(TakeFailure(), HandshakeFailure::kProtocol);
}

TEST_F(TlsServerTest, ClosesAHandshakeThatTakesTooLong) {
  options_.header_timeout = milliseconds(30);
  Serve(Echo);
  for (const char* part : {"", "\x16\x03\x01"}) {
    RawClient client = ConnectPlain();
    client.Write(part);
    EXPECT_TRUE(client.AtEnd());
    EXPECT_EQ(TakeFailure(), HandshakeFailure::kTimeout);
  }
}

TEST_F(TlsServerTest, ClosesAHandshakeThatIsTooLong) {
  Serve(Echo);
  RawClient client = ConnectPlain();
  // A hello that says it has 131,000 bytes, in records of 16,000.
  const std::string record_head("\x16\x03\x01\x3e\x80", 5);
  client.Write(record_head + std::string("\x01\x01\xff\xb8", 4) + std::string(15'996, '\0'));
  for (int i = 0; i < 7; ++i) client.Write(record_head + std::string(16'000, '\0'));
  EXPECT_EQ(TakeFailure(), HandshakeFailure::kTooLarge);
  client.ReadToEnd();
}

TEST_F(TlsServerTest, NoticesAClientThatLeavesInItsHandshake) {
  Serve(Echo);
  {
    RawClient client = ConnectPlain();
    client.Write("\x16\x03\x01");
  }
  EXPECT_EQ(TakeFailure(), HandshakeFailure::kClientLeft);
  client_context_ = MakeClientContext(TestAuthority("stranger").certificate_file());
  EXPECT_FALSE(Connect().connected());  // it does not trust this server
  EXPECT_EQ(TakeFailure(), HandshakeFailure::kClientLeft);
}

TEST_F(TlsServerTest, ClosesOneConnectionTooManyBeforeItsHandshake) {
  options_.max_connections = 1;
  std::atomic<int> refused = 0;
  options_.on_refused = [&](const Error&) { ++refused; };
  ServeByHand();
  RawClient first = Connect();
  first.Write(kGet);
  const Mailbox::Item item = mailbox_.Take();
  EXPECT_FALSE(Connect().connected());
  EXPECT_EQ(refused, 1);
  item.responder->Post([responder = item.responder] { responder->Respond(Text("ok")); });
  EXPECT_EQ(first.ReadResponse().body, "ok");
}

TEST_F(TlsServerTest, StopDoesNotWaitForAHandshake) {
  Serve(Echo);
  RawClient client = ConnectPlain();
  client.Write("\x16\x03\x01");
  while (server_->connection_count() == 0) std::this_thread::yield();
  server_->Stop(kPatience);
  EXPECT_TRUE(client.AtEnd());
}

// ---- client certificates ----

TEST_F(TlsServerTest, WantsAClientCertificateOfItsAuthority) {
  const TestAuthority clients("clients");
  const TestAuthority strangers("strangers");
  const TestAuthority::Wishes for_client{.purpose = TestAuthority::Purpose::kClient};
  options_.tls = TlsContext::Load(FilesOf(SharedServerCertificate(), clients.certificate_file())).value();
  Serve(Echo);
  const auto status_with = [&](const CertificateFiles* own) {
    client_context_ = MakeClientContext(SharedAuthority().certificate_file(), own);
    return Ask(kGet).status;
  };
  const CertificateFiles good = clients.Issue("good", for_client);
  EXPECT_EQ(status_with(&good), 200);
  const CertificateFiles stranger = strangers.Issue("stranger", for_client);
  const CertificateFiles server = clients.Issue("server");  // of the same authority, for another purpose
  const CertificateFiles expired =
      clients.Issue("expired", {.purpose = TestAuthority::Purpose::kClient, .until_seconds = -10});
  for (const CertificateFiles* bad : {static_cast<const CertificateFiles*>(nullptr), &stranger, &server, &expired}) {
    EXPECT_EQ(status_with(bad), 0);
    EXPECT_EQ(TakeFailure(), HandshakeFailure::kClientCertificate);
  }
}

// ---- bytes ----

TEST_F(TlsServerTest, CarriesLargeBodiesBothWays) {
  options_.thread_count = 2;
  Serve([](HttpRequest request, const std::shared_ptr<Responder>& responder) {
    responder->Respond(Text(request.body.TakeText(0)));
  });
  std::string body(options_.body_bytes, '\0');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>(i * 2'654'435'761U >> 24U);
  RawClient client = Connect();
  for (int i = 0; i < 2; ++i) {
    client.Write("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n");
    client.Write(body);
    EXPECT_TRUE(client.ReadResponse().body == body);
  }
}

TEST_F(TlsServerTest, FollowsANewKeyOfTheClient) {
  ServeByHand([](Responder& responder) { responder.Send("data: 1\n\n"); });
  RawClient client = Connect();
  client.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n").has_value());
  ASSERT_EQ(SSL_key_update(client.tls(), SSL_KEY_UPDATE_REQUESTED), 1);
  ASSERT_EQ(SSL_do_handshake(client.tls()), 1);
  responder->Post([=] {
    responder->Send("data: 2\n\n");
    responder->End();
  });
  EXPECT_TRUE(client.ReadUntil("0\r\n\r\n").has_value());
  client.Write(kGet);
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n").has_value());
  mailbox_.Take();
}

// ---- goodbyes ----

TEST_F(TlsServerTest, SaysCloseNotifyAfterTheLastAnswer) {
  Serve(Echo);
  RawClient client = Connect();
  client.Write(kGetAndClose);
  EXPECT_EQ(client.ReadResponse().status, 200);
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(client.saw_close_notify());
}

TEST_F(TlsServerTest, SaysCloseNotifyToIdleConnections) {
  Serve(Echo);
  RawClient client = Connect();
  client.Write(kGet);
  EXPECT_EQ(client.ReadResponse().status, 200);
  server_->Stop(kPatience);
  EXPECT_TRUE(client.AtEnd());
  EXPECT_TRUE(client.saw_close_notify());
}

TEST_F(TlsServerTest, SaysNoCloseNotifyAfterHalfAnAnswer) {
  ServeByHand();
  RawClient client = Connect();
  client.Write("GET /x HTTP/1.0\r\n\r\n");  // its answer ends where the connection does
  {
    const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
    responder->Post([=] { responder->Send("data: 1\n\n"); });
    ASSERT_TRUE(client.ReadUntil("data: 1\n\n").has_value());
  }
  client.ReadToEnd();
  EXPECT_FALSE(client.saw_close_notify());
}

TEST_F(TlsServerTest, TakesACloseNotifyForALeave) {
  std::promise<void> closed;
  ServeByHand([&](Responder& responder) {
    responder.OnClosed([&] { closed.set_value(); });
    responder.Send("data: 1\n\n");
  });
  RawClient client = Connect();
  client.Write(kGet);
  ASSERT_TRUE(client.ReadUntil("data: 1\n\n").has_value());
  const Mailbox::Item item = mailbox_.Take();
  client.SayCloseNotify();  // the socket stays open
  EXPECT_EQ(closed.get_future().wait_for(kPatience), std::future_status::ready);
}

// ---- new certificates ----

TEST_F(TlsServerTest, ANewCertificateIsForNewConnectionsAndABadOneForNone) {
  const TestAuthority authority("reload");
  const CertificateFiles files = authority.Issue("old");
  const auto tls = TlsContext::Load(FilesOf(files)).value();
  options_.tls = tls;
  client_context_ = MakeClientContext(authority.certificate_file());
  ServeByHand([](Responder& responder) { responder.Send("data: 1\n\n"); });
  RawClient stream = Connect();
  stream.Write(kGet);
  const std::shared_ptr<Responder> responder = mailbox_.Take().responder;
  ASSERT_TRUE(stream.ReadUntil("data: 1\n\n").has_value());
  EXPECT_EQ(NameOfServer(stream), "old");

  const CertificateFiles next = authority.Issue("new");
  std::filesystem::rename(next.certificate, files.certificate);
  EXPECT_FALSE(tls->Reload().ok());  // the key is still the old one's
  RawClient between = Connect();
  EXPECT_EQ(NameOfServer(between), "old");
  std::filesystem::rename(next.key, files.key);
  ASSERT_TRUE(tls->Reload().ok());
  RawClient after = Connect();
  EXPECT_EQ(NameOfServer(after), "new");

  responder->Post([=] {
    responder->Send("data: 2\n\n");
    responder->End();
  });
  EXPECT_TRUE(stream.ReadUntil("data: 2\n\n").has_value());
  EXPECT_TRUE(stream.ReadUntil("0\r\n\r\n").has_value());
  stream.Write(kGet);  // on the same connection, with the old certificate
  mailbox_.Take();
  EXPECT_TRUE(stream.ReadUntil("data: 1\n\n").has_value());
}

}  // namespace
}  // namespace roost
