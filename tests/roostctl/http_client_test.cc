// roostctl's client against the router's own HTTP server.
#include "deploy/roostctl/remote/http_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "common/http/server.h"
#include "tests/common/http/test_certificates.h"

namespace roost::roostctl {
namespace {

constexpr std::size_t kMoreThanAnyAnswer = (std::size_t{64} << 20U) + 1;

class HttpClientTest : public ::testing::Test {
 protected:
  // Answers with the key that came along, plain or over TLS.
  std::string Serve(std::shared_ptr<const TlsContext> tls = nullptr) {
    HttpServerOptions options;
    options.tls = std::move(tls);
    const std::string scheme = options.tls == nullptr ? "http" : "https";
    server_ = std::move(
        HttpServer::Start(options, [](const HttpRequest& request, const std::shared_ptr<Responder>& responder) {
          roost::HttpResponse response;
          response.body = request.FindHeader("authorization").value_or("none");
          if (request.path == "/endless") response.body.assign(kMoreThanAnyAnswer, 'A');
          responder->Respond(std::move(response));
        }).value());
    return scheme + "://127.0.0.1:" + std::to_string(server_->port()) + "/";
  }
  std::string ServeTls(const std::string& client_ca = "") {
    return Serve(TlsContext::Load(FilesOf(SharedServerCertificate(), client_ca)).value());
  }
  // The body, or the error.
  static std::string Ask(const RouterAccess& access) {
    HttpClient client(access, 20);
    const auto response = client.PostJson("/x", "{}");
    return response.ok() ? response->body : response.error().ToString();
  }

  const std::string authority_file_ = SharedAuthority().certificate_file();
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpClientTest, ShowsTheKeyThatItHas) {
  RouterAccess access(Serve());
  EXPECT_EQ(Ask(access), "none");
  access.api_key = "sk-one";
  EXPECT_EQ(Ask(access), "Bearer sk-one");
  EXPECT_EQ(HttpClient(access).Get("/x")->body, "Bearer sk-one");
  access.api_key_file = SharedAuthority().Write("key", "sk-two\r\nits comment\n");
  EXPECT_EQ(Ask(access), "Bearer sk-two");
}

TEST_F(HttpClientTest, AnAnswerWithoutEndIsAnError) {
  RouterAccess access(Serve());
  const auto response = HttpClient(access).Get("/endless");
  ASSERT_FALSE(response.ok());
  EXPECT_NE(response.error().message.find("more than 64 MiB"), std::string::npos) << response.error().message;
}

TEST(WithoutControls, DropsWhatTerminalsObey) {
  EXPECT_EQ(WithoutControls("no\x1b]0;PWNED\x07\x1b[2J"), "no]0;PWNED[2J");
  EXPECT_EQ(WithoutControls("{\"m\":\"no\\u001b[2J\\u009b1m\\u000a\"}"), "{\"m\":\"no\\ufffd[2J\\ufffd1m\\u000a\"}");
  EXPECT_EQ(WithoutControls("a\\\\u001b b"), "a\\\\u001b b");  // an escaped backslash, and then text
  EXPECT_EQ(WithoutControls("a\xc2\x9b"
                            "31m\n\tü \\u00e9"),
            "a31m\n\tü \\u00e9");
  EXPECT_EQ(WithoutControls("\\u00"), "\\u00");
}

TEST_F(HttpClientTest, ABadKeyIsAnErrorThatDoesNotShowIt) {
  RouterAccess access(Serve());
  access.api_key = "sk-secret\nX-Other: 1";
  const std::string error = Ask(access);
  EXPECT_EQ(error.rfind("api-key: ", 0), 0U) << error;
  EXPECT_EQ(error.find("secret"), std::string::npos) << error;
  access.api_key_file = "/none";
  EXPECT_EQ(Ask(access).rfind("api-key-file: '/none'", 0), 0U);
  // Nor does an error of another kind.
  access = RouterAccess("http://127.0.0.1:1");
  access.api_key = "sk-secret";
  EXPECT_EQ(Ask(access).find("secret"), std::string::npos);
}

TEST_F(HttpClientTest, SpeaksTlsToARouterThatItTrusts) {
  RouterAccess access(ServeTls());
  EXPECT_NE(Ask(access).find("certificate"), std::string::npos);  // the system knows no such authority
  const TestAuthority stranger("client_stranger");
  access.ca_file = stranger.certificate_file();
  EXPECT_NE(Ask(access).find("certificate"), std::string::npos);
  access.ca_file = authority_file_;
  EXPECT_EQ(Ask(access), "none");
}

TEST_F(HttpClientTest, ShowsItsCertificate) {
  const TestAuthority clients("client_authority");
  const auto own = clients.Issue("operator", {.purpose = TestAuthority::Purpose::kClient});
  RouterAccess access(ServeTls(clients.certificate_file()));
  access.ca_file = authority_file_;
  EXPECT_NE(Ask(access), "none");
  access.client_cert = own.certificate;
  access.client_key = own.key;
  EXPECT_EQ(Ask(access), "none");
}

// As the admin listener of a router may be one.
TEST_F(HttpClientTest, AsksOverALocalSocket) {
  const std::string path = SharedAuthority().folder() / "socket";
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  std::thread server([listener] {
    const int fd = ::accept(listener, nullptr, nullptr);
    std::string request;
    char byte = 0;
    while (request.find("\r\n\r\n{}") == std::string::npos && ::recv(fd, &byte, 1, 0) == 1) request += byte;
    const std::string body = request.substr(0, request.find("\r\n"));
    const std::string answer = "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    EXPECT_EQ(::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL), static_cast<ssize_t>(answer.size()));
    ::close(fd);
  });
  EXPECT_EQ(Ask("unix:" + path), "POST /x HTTP/1.1");
  server.join();
  ::close(listener);
}

}  // namespace
}  // namespace roost::roostctl
