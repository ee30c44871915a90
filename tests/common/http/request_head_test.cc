#include "common/http/http_message.h"

#include <gtest/gtest.h>

#include <string>

namespace roost {
namespace {

HeadScan Scan(std::string_view input) {
  std::size_t scanned = 0;
  return ScanHead(input, scanned);
}

TEST(RequestHeadTest, FindsTheEmptyLineWhereverTheBytesAreCut) {
  const std::string head = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  for (std::size_t cut = 0; cut < head.size(); ++cut) {
    std::size_t scanned = 0;
    EXPECT_EQ(ScanHead(std::string_view(head).substr(0, cut), scanned).state, HeadScan::State::kIncomplete) << cut;
    const HeadScan scan = ScanHead(head + "body", scanned);
    EXPECT_EQ(scan.state, HeadScan::State::kComplete) << cut;
    EXPECT_EQ(scan.head_size, head.size()) << cut;
  }
}

TEST(RequestHeadTest, RefusesBareLineFeedsAtOnce) {
  EXPECT_EQ(Scan("GET / HTTP/1.1\n").state, HeadScan::State::kMalformed);
  EXPECT_EQ(Scan("GET / HTTP/1.1\r\nHost: a\n\n").state, HeadScan::State::kMalformed);
  EXPECT_EQ(Scan("\n").state, HeadScan::State::kMalformed);
}

TEST(RequestHeadTest, SkipsEmptyLinesBeforeARequest) {
  EXPECT_EQ(LeadingEmptyLines("\r\n\r\nGET"), 4U);
  EXPECT_EQ(LeadingEmptyLines("GET"), 0U);
  EXPECT_EQ(LeadingEmptyLines("\r"), 0U);
}

TEST(RequestHeadTest, AcceptsOrdinaryHeads) {
  for (const char* head : {
           "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET /v1/models?x=%20y HTTP/1.0\r\n\r\n",
           "GET http://a:8000/v1/models HTTP/1.1\r\nHost: b\r\n\r\n",
           "GET HTTPS://[::1]?x HTTP/1.1\r\nHost: a\r\n\r\n",
           "POST /v1/completions HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 12\r\n\r\n",
           "POST / HTTP/1.1\r\nhost:a\r\ntransfer-encoding:  Chunked \r\n\r\n",
           "OPTIONS * HTTP/1.1\r\nHost: a\r\nX-Empty:\r\nX-Tab: a\tb\r\nX-Bytes: \xC3\xA9\r\n\r\n",
       }) {
    const auto error = CheckHead(head);
    EXPECT_FALSE(error.has_value()) << head << ": " << error->message;
  }
}

TEST(RequestHeadTest, TakesAUrlApart) {
  struct Case {
    const char* target;
    const char* authority;
    const char* path;
    const char* query;
  };
  for (const Case& expected :
       {Case{"/a?b?c", "", "/a", "b?c"}, Case{"*", "", "*", ""}, Case{"//a/b", "", "//a/b", ""},
        Case{"http://h:80/a/b?c", "h:80", "/a/b", "c"}, Case{"HTTP://h", "h", "/", ""},
        Case{"https://[::1]:8?x", "[::1]:8", "/", "x"}, Case{"/http://a", "", "/http://a", ""}}) {
    const RequestTarget target = ParseTarget(expected.target);
    EXPECT_EQ(target.authority, expected.authority) << expected.target;
    EXPECT_EQ(target.path, expected.path) << expected.target;
    EXPECT_EQ(target.query, expected.query) << expected.target;
  }
}

TEST(RequestHeadTest, SlashesThatFollowOneAnotherAreOne) {
  EXPECT_EQ(JoinedSlashes("//v1///chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(JoinedSlashes("/a/"), "/a/");
}

TEST(RequestHeadTest, RefusesWhatTwoParsersCouldReadDifferently) {
  const std::string get = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (const std::string& head : std::initializer_list<std::string>{
           get + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
           get + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
           get + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n",
           get + "Content-Length: 1\r\ncontent-length: 2\r\n\r\n",
           get + "Content-Length: 1, 1\r\n\r\n",
           get + "Content-Length: +1\r\n\r\n",
           get + "Content-Length: -1\r\n\r\n",
           get + "Content-Length: 0x10\r\n\r\n",
           get + "Content-Length:\r\n\r\n",
           get + "Transfer-Encoding: gzip\r\n\r\n",
           get + "Transfer-Encoding: gzip, chunked\r\n\r\n",
           get + "Transfer-Encoding: chunked, chunked\r\n\r\n",
           get + "Transfer-Encoding: xchunked\r\n\r\n",
           get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
           get + "X: a\r\n folded\r\n\r\n",
           get + "X : a\r\n\r\n",
           get + ": a\r\n\r\n",
           get + "no colon\r\n\r\n",
           get + "Host: b\r\n\r\n",
           get + std::string("X: a\0b\r\n\r\n", 10),
           get + "X: a\rb\r\n\r\n",
           "GET / HTTP/1.1\r\n\r\n",
           "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
           "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
           "GET / HTTP/1.2\r\nHost: a\r\n\r\n",
           "GET / http/1.1\r\nHost: a\r\n\r\n",
           "GET /\r\n\r\n",
           "GET  HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET / x HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET http://:80/x HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET http:/x HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET http://a/ HTTP/1.1\r\n\r\n",
           "CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
           "GET /\xC3\xA9 HTTP/1.1\r\nHost: a\r\n\r\n",
           "G(T / HTTP/1.1\r\nHost: a\r\n\r\n",
           "\r\n\r\n",
       }) {
    const auto error = CheckHead(head);
    ASSERT_TRUE(error.has_value()) << head;
    EXPECT_EQ(error->code, ErrorCode::kInvalidArgument) << head;
  }
}

TEST(RequestHeadTest, BoundsTheNumberOfHeaders) {
  std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (std::size_t i = 1; i < kMaxHeaderCount; ++i) head += "X: y\r\n";
  EXPECT_FALSE(CheckHead(head + "\r\n").has_value());
  const auto error = CheckHead(head + "X: y\r\n\r\n");
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, ErrorCode::kHeaderTooLarge);
}

}  // namespace
}  // namespace roost
