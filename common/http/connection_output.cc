// The output of a connection: heads, whole answers, streams, and how it ends.
#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <iterator>
#include <utility>

#include "common/base/check.h"
#include "common/http/connection.h"

namespace roost {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

// Bytes of answers that each connection may hold without a charge.
constexpr std::size_t kFreeOutputBytes = 16 * 1024;
constexpr std::string_view kPing = ": ping\n\n";

// Replaces control characters, so that a value that came from a peer can not begin a new header line.
std::string_view SafeHeaderValue(std::string_view value, std::string& buffer) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  if (std::none_of(value.begin(), value.end(), is_control)) return value;
  buffer = value;
  std::replace_if(buffer.begin(), buffer.end(), is_control, '_');
  return buffer;
}

}  // namespace

std::string Connection::Head(int status, const std::vector<HttpHeader>& headers) const {
  const auto reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  std::string head = fmt::format("HTTP/1.1 {} {}\r\n", status, std::string_view(reason.data(), reason.size()));
  std::string buffer;
  const auto append = [&](std::string_view name, std::string_view value) {
    fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, SafeHeaderValue(value, buffer));
  };
  append("Server", "roost");
  append("Date", thread_.date.Now());
  append("Connection", keep_alive_ ? "keep-alive" : "close");
  append("x-request-id", request_id_);  // for OpenAI's clients
  append("request-id", request_id_);    // for Anthropic's clients
  for (const HttpHeader& header : cors_headers_) append(header.name, header.value);
  for (const HttpHeader& header : headers) append(header.name, header.value);
  head += "\r\n";
  return head;
}

void Connection::Respond(HttpResponse response) {
  if (response.memory == nullptr && response.body.size() > kFreeOutputBytes &&
      !output_memory_.TryResize(response.body.size())) {
    response = ErrorResponse({ErrorCode::kOverloaded, "the server has no memory for this answer now", ""});
  }
  answer_memory_ = std::move(response.memory);
  answer_ = Answer::kEnded;
  if (waits_in_ == nullptr) JoinWaiting(thread_.unread);
  deadlines_[kSilenceDeadline].reset();
  std::vector<HttpHeader> headers = std::move(response.headers);
  // Neither of these has a body, or headers about one.
  const bool has_body = response.status != 204 && response.status != 304;
  if (has_body) {
    headers.push_back({"Content-Type", std::move(response.content_type)});
    headers.push_back({"Content-Length", fmt::to_string(response.body.size())});
  }
  output_ += Head(response.status, headers);
  if (!is_head_request_ && has_body) {
    // A large body is not copied.
    response.body.size() > kFreeOutputBytes ? body_.swap(response.body) : void(output_ += response.body);
  }
  Flush();
}

void Connection::PrepareStream(std::vector<HttpHeader> headers) {
  stream_headers_ = std::move(headers);
  if (answer_ != Answer::kOpen) return;
  answer_ = Answer::kPrepared;
  Expire(kSilenceDeadline, shared_->options.keep_alive_interval);
}

void Connection::WriteStreamHead() {
  if (framing_ == Framing::kUntilClose) keep_alive_ = false;
  std::vector<HttpHeader> headers = std::move(stream_headers_);
  headers.push_back({"Content-Type", "text/event-stream; charset=utf-8"});
  headers.push_back({"Cache-Control", "no-cache"});
  headers.push_back({"X-Accel-Buffering", "no"});
  if (framing_ == Framing::kChunked) headers.push_back({"Transfer-Encoding", "chunked"});
  output_ += Head(200, headers);
  answer_ = Answer::kStreaming;
}

void Connection::BeginBytes(BytesHead head) {
  ROOST_CHECK(head.on_written != nullptr);
  if (answer_ == Answer::kStreaming) return;
  deadlines_[kSilenceDeadline].reset();
  on_written_ = std::move(head.on_written);
  if (framing_ == Framing::kUntilClose) keep_alive_ = false;
  std::vector<HttpHeader> headers = std::move(head.headers);
  if (!head.content_type.empty()) headers.push_back({"Content-Type", std::move(head.content_type)});
  if (framing_ == Framing::kChunked) headers.push_back({"Transfer-Encoding", "chunked"});
  output_ += Head(head.status, headers);
  answer_ = Answer::kStreaming;
}

void Connection::WriteFrames(std::string_view frames) {
  if (frames.empty()) return;
  if (answer_ != Answer::kStreaming) WriteStreamHead();
  if (framing_ == Framing::kUntilClose) {
    output_ += frames;
  } else {
    fmt::format_to(std::back_inserter(output_), "{:x}\r\n{}\r\n", frames.size(), frames);
  }
  if (on_written_) {
    unwritten_bytes_ += frames.size();
    return;
  }
  Expire(kSilenceDeadline, shared_->options.keep_alive_interval);
}

void Connection::WritePing() { WriteFrames(kPing); }

// The unread backlog is judged without the new frames, which may be many: whole prompts, whole items.
void Connection::Send(std::string_view frames) {
  const bool is_behind = !on_written_ && backlog_ > shared_->options.stream_buffer_bytes;
  WriteFrames(frames);
  if (ChargeStream() && !is_behind) return;
  AbortLater();
}

// Posted, so that OnClosed never runs inside a call of the answer's owner.
void Connection::AbortLater() {
  asio::post(transport_.executor(), [self = shared_from_this()] { self->Abort(); });
}

bool Connection::ChargeStream() {
  const std::size_t unwritten = output_.size() + writing_.size();
  return output_memory_.TryResize(unwritten > kFreeOutputBytes ? unwritten : 0);
}

void Connection::End() {
  if (answer_ != Answer::kStreaming) WriteStreamHead();
  EndStream();
}

void Connection::EndStream() {
  if (framing_ == Framing::kChunked) output_ += "0\r\n\r\n";
  answer_ = Answer::kEnded;
  deadlines_[kSilenceDeadline].reset();
  if (waits_in_ == nullptr) JoinWaiting(thread_.unread);
  Flush();
}

FailureShape Connection::Fail(HttpResponse response, std::string_view frames) {
  if (answer_ != Answer::kStreaming) {
    Respond(std::move(response));
    return FailureShape::kResponse;
  }
  if (on_written_) {
    AbortLater();
    return FailureShape::kFrames;
  }
  WriteFrames(frames);
  EndStream();
  return FailureShape::kFrames;
}

void Connection::Abandon() {
  if (state_ != State::kAnswer || answer_ == Answer::kEnded) return;
  if (answer_ == Answer::kStreaming) return Abort();
  Respond(ErrorResponse({ErrorCode::kInternal, "the request was dropped without an answer", ""}));
}

// ---- writing ----

void Connection::Flush() {
  if (output_.empty()) output_.swap(body_);
  backlog_ = output_.size() + writing_.size();
  if (!writing_.empty() || state_ == State::kClosed) return;
  if (output_.empty()) {
    deadlines_[kWriteDeadline].reset();
    if (state_ == State::kAnswer && answer_ == Answer::kEnded) FinishAnswer();
    return;
  }
  writing_.swap(output_);
  writing_bytes_ = std::exchange(unwritten_bytes_, 0);
  Expire(kWriteDeadline, shared_->options.write_timeout);
  transport_.AsyncWrite(writing_, [self = shared_from_this()](boost::system::error_code error) {
    self->Guard([&] { self->OnWritten(error); });
  });
}

void Connection::OnWritten(boost::system::error_code error) {
  writing_.clear();
  // Room that was needed once is not kept for as long as a stream lasts.
  if (writing_.capacity() > kFreeOutputBytes) std::string().swap(writing_);
  if (state_ == State::kClosed) return;
  if (answer_ == Answer::kStreaming) static_cast<void>(ChargeStream());
  if (error) return Abort();
  if (writing_bytes_ > 0) on_written_(std::exchange(writing_bytes_, 0));
  Flush();
}

void Connection::FinishAnswer() {
  exchange_.reset();
  output_memory_.Shrink(output_memory_.bytes());
  answer_memory_.reset();
  reads_ahead_ = true;
  stream_headers_.clear();
  on_written_ = nullptr;
  if (!keep_alive_ || input_ended_) return Linger();
  state_ = State::kIdle;
  JoinWaiting(thread_.waiting);
  writing_.shrink_to_fit();
  output_.shrink_to_fit();
  // The head of an answer that began before the drain has promised the client that it may ask again.
  Expire(kReadDeadline, shared_->draining ? shared_->options.linger_timeout : shared_->options.idle_timeout);
  Advance();
  Read();
}

// Closing while the client still sends would reset the connection, and the client could lose the answer. So the server
// closes its sending side and keeps reading, for a short time, until the client has closed.
void Connection::Linger() {
  state_ = State::kLinger;
  JoinWaiting(thread_.waiting, Turn::kNext);
  input_.clear();
  static_cast<void>(ChargeInput());  // gives all back
  Expire(kReadDeadline, shared_->options.linger_timeout);
  EndOutput();
}

void Connection::EndOutput() {
  if (state_ == State::kClosed) return;
  const Transport::Outcome outcome = transport_.EndOutput();
  if (outcome == Transport::Outcome::kWaitOutput) {
    return transport_.AsyncWaitOutput([self = shared_from_this()](boost::system::error_code error) {
      self->Guard([&] { error ? self->Close() : self->EndOutput(); });
    });
  }
  if (input_ended_ || outcome != Transport::Outcome::kDone) return Close();
  Read();
}

}  // namespace roost
