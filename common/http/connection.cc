#include "common/http/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/optional/optional.hpp>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/http/cors.h"
#include "common/http/http_body.h"
#include "common/http/http_message.h"

namespace roost {

// Lets Boost.Beast's parser fill an HttpBody. Parsing fails with not_enough_memory when the budget has no room for the
// body. Private to common/http.
struct BudgetedBody {
  using value_type = HttpBody;

  class reader {  // NOLINT(readability-identifier-naming): Beast requires the name
   public:
    template <bool kIsRequest, typename Fields>
    reader(boost::beast::http::header<kIsRequest, Fields>& /*header*/, HttpBody& body) : body_(body) {}

    void init(const boost::optional<std::uint64_t>& /*length*/, boost::system::error_code& error) { error = {}; }
    template <typename Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      std::size_t size = 0;
      for (auto buffer = boost::asio::buffer_sequence_begin(buffers);
           buffer != boost::asio::buffer_sequence_end(buffers); ++buffer) {
        const boost::asio::const_buffer bytes(*buffer);
        if (!body_.TryAppend({static_cast<const char*>(bytes.data()), bytes.size()})) {
          error = make_error_code(boost::system::errc::not_enough_memory);
          return size;
        }
        size += bytes.size();
      }
      error = {};
      return size;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    HttpBody& body_;
  };
};

namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::size_t kAheadBytes = 4 * 1024;      // of one read while an earlier request is still being answered
constexpr std::size_t kFreeInputBytes = 4 * 1024;  // that each connection may hold without a charge
// A head exists three times: as raw text, in the library, and as the request's headers.
constexpr std::size_t kHeadCopies = 3;
// A client that reads an answer gets at least this much time for it.
constexpr std::chrono::seconds kReadingTime{1};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

Error BodyTooLarge() { return {ErrorCode::kBodyTooLarge, "the request body is larger than this server accepts", ""}; }

Error NoMemory() { return {ErrorCode::kOverloaded, "the server has no memory for more requests now", ""}; }

Error ParseError(boost::system::error_code error) {
  if (error == http::error::body_limit) return BodyTooLarge();
  if (error == boost::system::errc::not_enough_memory) return NoMemory();
  if (error == http::error::header_limit) {
    return Error{ErrorCode::kHeaderTooLarge, "the request head is larger than this server accepts", ""};
  }
  return Error{ErrorCode::kInvalidArgument, fmt::format("the request is not valid HTTP: {}", error.message()), ""};
}

TlsSession SessionOf(const HttpServerOptions& options) {
  return options.tls == nullptr ? nullptr : options.tls->NewSession();
}

std::string NewRequestId(Rng& ids) { return fmt::format("req-{:016x}{:016x}", ids(), ids()); }

// The request without its body.
HttpRequest HeadOf(const http::request<BudgetedBody>& message, Rng& ids) {
  HttpRequest request;
  request.method = std::string(message.method_string());
  const RequestTarget target = ParseTarget({message.target().data(), message.target().size()});
  request.path = JoinedSlashes(target.path);
  request.query = target.query;
  for (const auto& field : message) {
    const bool is_replaced = field.name() == http::field::host && !target.authority.empty();
    request.headers.push_back(
        {std::string(field.name_string()), is_replaced ? std::string(target.authority) : std::string(field.value())});
  }
  const std::string_view sent_id = request.FindHeader("x-request-id").value_or("");
  request.request_id = IsValidRequestId(sent_id) ? std::string(sent_id) : NewRequestId(ids);
  return request;
}

}  // namespace

struct Connection::Request {
  std::size_t scanned = 0;
  bool head_done = false;
  HttpRequest head;
  http::request_parser<BudgetedBody> parser;

  explicit Request(const HttpServerOptions& options) {
    parser.get().body() = HttpBody(options.input_budget);
    parser.body_limit(options.body_bytes);
    parser.header_limit(static_cast<std::uint32_t>(
        std::min<std::size_t>(options.header_bytes, std::numeric_limits<std::uint32_t>::max())));
  }
};

std::shared_ptr<ServerShared> CountConnection(const std::shared_ptr<ServerShared>& shared, Place place) {
  {
    const std::lock_guard lock(shared->mutex);
    if (place == Place::kFree && shared->connection_count >= shared->options.max_connections) return nullptr;
    ++shared->connection_count;
  }
  // If allocating the pointer's control block throws, the deleter runs at once and the count goes down again.
  return std::shared_ptr<ServerShared>(shared.get(), [shared](ServerShared* counted) {
    const std::lock_guard lock(counted->mutex);
    if (--counted->connection_count == 0) counted->all_closed.notify_all();
  });
}

Connection::Connection(Socket socket, std::shared_ptr<ServerShared> shared, const std::shared_ptr<IoThread>& thread)
    : shared_(std::move(shared)),
      thread_(*thread),
      weak_thread_(thread),
      transport_(std::move(socket), SessionOf(shared_->options)),
      input_memory_(shared_->options.head_budget != nullptr ? shared_->options.head_budget
                                                            : shared_->options.input_budget),
      timer_(transport_.executor()) {
  thread_.connections.insert(this);
}

Connection::~Connection() {
  LeaveWaiting();
  thread_.connections.erase(this);
}

void Connection::Start() {
  if (shared_->draining) return Close();
  transport_.SetUp();
  client_ = transport_.PeerAddress();
  JoinWaiting(thread_.waiting);
  if (shared_->options.tls == nullptr) return BeginIdle();
  if (!transport_.speaks_tls()) return Close();  // there was no memory for it
  state_ = State::kHandshake;
  Expire(kReadDeadline, shared_->options.header_timeout);
  Handshake();
}

void Connection::Drain() {
  if (state_ == State::kIdle || state_ == State::kHandshake) Close();
}

void Connection::Abort() {
  if (state_ == State::kClosed) return;
  const std::shared_ptr<Exchange> exchange = exchange_.lock();
  Close();
  if (exchange) exchange->MarkClosed();
}

void Connection::Close() {
  if (state_ == State::kClosed) return;
  LeaveWaiting();
  const bool cuts_answer = std::exchange(state_, State::kClosed) == State::kAnswer;
  transport_.Close(cuts_answer ? Transport::Farewell::kReset : Transport::Farewell::kClean);
  on_written_ = nullptr;
  timer_.cancel();
}

// ---- room for others ----

bool Connection::EvictOne(const IoThread& thread) {
  Connection* longest = nullptr;
  if (!thread.waiting.empty()) {
    longest = thread.waiting.front();
  } else if (!thread.unread.empty()) {
    longest = thread.unread.front();
    if (std::chrono::steady_clock::now() - longest->waits_since_ < kReadingTime) return false;
  }
  if (longest == nullptr) return false;
  LogDebug("a connection is closed for a new one", {{"client", longest->client_}});
  longest->shared_from_this()->Abort();
  return true;
}

void Connection::JoinWaiting(std::list<Connection*>& list, Turn turn) {
  LeaveWaiting();
  waits_at_ = list.insert(turn == Turn::kNext ? list.begin() : list.end(), this);
  waits_in_ = &list;
  waits_since_ = std::chrono::steady_clock::now();
}

void Connection::LeaveWaiting() {
  if (waits_in_ != nullptr) std::exchange(waits_in_, nullptr)->erase(waits_at_);
}

// ---- the handshake ----

void Connection::Handshake() {
  const auto ready = [self = shared_from_this()](boost::system::error_code error) {
    self->Guard([&] { self->OnHandshakeReady(error); });
  };
  switch (transport_.Handshake()) {
    case Transport::Outcome::kDone: return BeginIdle();
    case Transport::Outcome::kWaitInput: return transport_.AsyncWaitInput(ready);
    case Transport::Outcome::kWaitOutput: return transport_.AsyncWaitOutput(ready);
    case Transport::Outcome::kEnded:
    case Transport::Outcome::kFailed: return OnHandshakeFailed(transport_.failure(), transport_.why());
  }
}

void Connection::OnHandshakeReady(boost::system::error_code error) {
  if (state_ == State::kHandshake) error ? Close() : Handshake();
}

void Connection::OnHandshakeFailed(HandshakeFailure failure, const std::string& why) {
  LogDebug("a TLS handshake failed", {{"reason", std::string(NameOf(failure))}, {"error", why}});
  if (shared_->options.on_handshake_failed) shared_->options.on_handshake_failed(failure);
  if (failure != HandshakeFailure::kPlainHttp) return Close();
  Refuse({ErrorCode::kInvalidArgument, "this port speaks TLS: use https://", ""});
  Read();
}

void Connection::BeginIdle() {
  state_ = State::kIdle;
  Expire(kReadDeadline, shared_->options.idle_timeout);
  Read();
}

// ---- reading ----

void Connection::Read() {
  if (read_pending_ || input_ended_ || state_ == State::kClosed) return;
  if (state_ == State::kAnswer && (!reads_ahead_ || input_.size() > shared_->options.header_bytes)) return;
  read_pending_ = true;
  transport_.AsyncWaitInput(
      [self = shared_from_this()](boost::system::error_code error) { self->Guard([&] { self->OnReadable(error); }); });
}

void Connection::OnReadable(boost::system::error_code error) {
  read_pending_ = false;
  if (state_ == State::kClosed) return;
  if (error) return Abort();
  const std::size_t wanted = state_ == State::kAnswer ? kAheadBytes : thread_.read_buffer.size();
  const Transport::Input input = transport_.Read({thread_.read_buffer.data(), wanted});
  if (input.outcome == Transport::Outcome::kEnded) return OnInputEnded();
  if (input.outcome == Transport::Outcome::kFailed) return Abort();
  if (input.size > 0) TakeInput({thread_.read_buffer.data(), input.size});
  Read();
}

// The server can not distinguish a client that only closed its sending side from one that is gone. It treats both as
// gone, unless the answer is complete and only needs to be written.
void Connection::OnInputEnded() {
  input_ended_ = true;
  if (state_ == State::kAnswer && answer_ == Answer::kEnded) return;
  Abort();
}

void Connection::TakeInput(std::string_view bytes) {
  if (state_ == State::kLinger) return;
  if (state_ == State::kRequest && request_->head_done) return ParseBody(bytes);
  input_.append(bytes);
  Advance();
  if (ChargeInput()) return;
  if (state_ == State::kRequest) return Refuse(NoMemory());
  if (state_ == State::kAnswer) reads_ahead_ = false;
}

bool Connection::ChargeInput() {
  // Assigning an empty string would keep the memory.
  if (input_.empty() && input_.capacity() > kFreeInputBytes) std::string().swap(input_);
  return input_memory_.TryResize(input_.capacity() > kFreeInputBytes ? input_.capacity() : 0);
}

void Connection::Advance() {
  if (state_ == State::kIdle) BeginRequest();
  if (state_ == State::kRequest) ParseHead();
}

void Connection::BeginRequest() {
  input_.erase(0, LeadingEmptyLines(input_));
  if (input_.empty() || input_ == "\r") return;
  state_ = State::kRequest;
  request_ = std::make_unique<Request>(shared_->options);
  Expire(kReadDeadline, shared_->options.header_timeout);
}

void Connection::ParseHead() {
  const HeadScan scan = ScanHead(input_, request_->scanned);
  if (scan.state == HeadScan::State::kMalformed) {
    return Refuse({ErrorCode::kInvalidArgument, "a line of the request ends without a carriage return", ""});
  }
  const bool complete = scan.state == HeadScan::State::kComplete;
  if ((complete ? scan.head_size : input_.size()) > shared_->options.header_bytes) {
    return Refuse({ErrorCode::kHeaderTooLarge,
                   fmt::format("the request head is larger than {} bytes", shared_->options.header_bytes), ""});
  }
  if (!complete) return;
  if (const auto error = CheckHead(std::string_view(input_).substr(0, scan.head_size))) return Refuse(*error);
  if (!request_->parser.get().body().memory().TryGrow(kHeadCopies * scan.head_size)) return Refuse(NoMemory());
  boost::system::error_code error;
  request_->parser.put(asio::buffer(input_.data(), scan.head_size), error);
  if (error && error != http::error::need_more) return Refuse(ParseError(error));
  input_.erase(0, scan.head_size);
  request_->parser.eager(true);
  request_->head_done = true;
  Expire(kReadDeadline, shared_->options.body_timeout);
  JudgeHead();
}

// A request that is refused whatever its body is, is refused before any of the body is read.
void Connection::JudgeHead() {
  Request& request = *request_;
  request.head = HeadOf(request.parser.get(), thread_.ids);
  request.head.client = client_;
  ByteBudget::Guard& memory = request.parser.get().body().memory();
  std::optional<HttpResponse> refusal;
  if (shared_->options.check_head) {
    HeadVerdict verdict = shared_->options.check_head(request.head);
    refusal = std::move(verdict.refusal);
    if (refusal && !SkipBody()) return Refuse(HttpRequest(std::move(request.head)), *std::move(refusal));
    if (verdict.budget != nullptr && !memory.TryMoveTo(std::move(verdict.budget))) return Refuse(NoMemory());
    request.head.ticket = std::move(verdict.ticket);
  }
  output_memory_ = memory.Another();
  LeaveWaiting();
  refusal || request.parser.is_done() ? Handle(std::move(refusal)) : AwaitBody();
}

// A refused request whose body is there already, or that has none, leaves the connection as it should be.
bool Connection::SkipBody() {
  if (request_->parser.is_done()) return true;
  const auto size = request_->parser.content_length();
  if (!size || *size > input_.size()) return false;
  input_.erase(0, *size);
  return true;
}

// A body that can never fit or does not fit now is refused before it arrives.
void Connection::AwaitBody() {
  const std::uint64_t body_bytes = request_->parser.content_length().value_or(0);
  const ByteBudget::Guard& memory = request_->parser.get().body().memory();
  if (!memory.CouldHold(body_bytes)) return Refuse(BodyTooLarge());
  if (!memory.HasRoomFor(body_bytes)) return Refuse(NoMemory());
  if (!input_.empty()) ParseBody({});
  if (state_ == State::kRequest) InviteBody();
}

void Connection::InviteBody() {
  const auto& head = request_->parser.get();
  const auto expect = head[http::field::expect];
  if (head.version() >= 11 && EqualsIgnoringCase({expect.data(), expect.size()}, "100-continue")) {
    output_ += kContinue;
    Flush();
  }
}

void Connection::ParseBody(std::string_view arrived) {
  // Earlier reads rarely left anything in input_; then the parser gets the new bytes without a copy.
  if (!input_.empty()) input_.append(arrived);
  const std::string_view bytes = input_.empty() ? arrived : std::string_view(input_);
  boost::system::error_code error;
  const std::size_t used = request_->parser.put(asio::buffer(bytes), error);
  if (error && error != http::error::need_more) return Refuse(ParseError(error));
  input_.empty() ? input_.assign(bytes.substr(used)) : input_.erase(0, used);
  if (!ChargeInput()) return Refuse(NoMemory());
  if (request_->parser.is_done()) return Handle();
  // The parser leaves bytes unread only while a chunk's size line or the trailer is incomplete.
  if (input_.size() > shared_->options.header_bytes) {
    Refuse({ErrorCode::kInvalidArgument, "a chunk's head or the trailer of the request body is too long", ""});
  }
}

void Connection::Handle(std::optional<HttpResponse> refusal) {
  state_ = State::kAnswer;
  answer_ = Answer::kOpen;
  deadlines_[kReadDeadline].reset();
  HttpRequest request = std::move(request_->head);
  auto message = request_->parser.release();
  request_.reset();
  request.body = std::move(message.body());
  keep_alive_ = message.keep_alive() && !shared_->closes_after_answers;
  framing_ = message.version() >= 11 ? Framing::kChunked : Framing::kUntilClose;
  is_head_request_ = request.method == "HEAD";
  request_id_ = request.request_id;
  cors_headers_ = CorsHeaders(shared_->options.cors_origins, request);
  auto exchange = std::make_shared<Exchange>(weak_from_this(), weak_thread_);
  exchange_ = exchange;
  refusal ? exchange->Respond(*std::move(refusal)) : shared_->handler(std::move(request), std::move(exchange));
  Flush();
  if (input_ended_ && answer_ != Answer::kEnded) Abort();
}

void Connection::OnOutOfMemory() {
  try {
    if (state_ != State::kRequest) return OnException("std::bad_alloc");
    Refuse({ErrorCode::kUnavailable, "the server is out of memory", ""});
    Read();
  } catch (const std::bad_alloc&) {
    Close();
  }
}

void Connection::Refuse(const Error& error) {
  BeginRefusal(NewRequestId(thread_.ids));
  if (shared_->options.on_refused) shared_->options.on_refused(error);
  Respond(ErrorResponse(error));
}

void Connection::Refuse(const HttpRequest& head, HttpResponse refusal) {
  BeginRefusal(head.request_id);
  cors_headers_ = CorsHeaders(shared_->options.cors_origins, head);
  Respond(std::move(refusal));
}

// The rest of the request's bytes is not read, so the connection ends after the answer.
void Connection::BeginRefusal(std::string request_id) {
  state_ = State::kAnswer;
  answer_ = Answer::kOpen;
  deadlines_[kReadDeadline].reset();
  request_.reset();
  exchange_.reset();
  keep_alive_ = false;
  is_head_request_ = false;
  request_id_ = std::move(request_id);
  cors_headers_.clear();
}

// ---- exceptions ----

// The code that threw may have left the answer incomplete. So nothing more is added to it, and its owner is told that
// the client is gone.
void Connection::OnException(const char* what) {
  const std::shared_ptr<Exchange> exchange = exchange_.lock();
  try {
    LogError("an exception ends a connection", {{"error", what}, {"request_id", request_id_}});
    keep_alive_ = false;
    const bool can_answer = state_ == State::kAnswer && (answer_ == Answer::kOpen || answer_ == Answer::kPrepared);
    if (can_answer && writing_.empty() && output_.empty()) {
      Respond(ErrorResponse({ErrorCode::kInternal, "the server failed while handling this request", ""}));
    } else {
      Abort();
    }
    if (exchange) exchange->MarkClosed();
  } catch (const std::exception& again) {
    Close();
    LogError("an exception at the end of a connection", {{"error", again.what()}});
  }
}

// ---- deadlines ----

void Connection::Expire(Deadline deadline, std::chrono::milliseconds after) {
  deadlines_[deadline] = std::chrono::steady_clock::now() + after;
  ArmTimer();
}

void Connection::ArmTimer() {
  std::optional<TimePoint> earliest;
  for (const std::optional<TimePoint>& deadline : deadlines_) {
    if (deadline && (!earliest || *deadline < *earliest)) earliest = deadline;
  }
  if (!earliest || (armed_ && *armed_ <= *earliest)) return;
  armed_ = earliest;
  timer_.expires_at(*earliest);
  timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
    if (!error) self->Guard([&] { self->OnTimer(); });
  });
}

void Connection::OnTimer() {
  if (state_ == State::kClosed) return;
  armed_.reset();
  const TimePoint now = std::chrono::steady_clock::now();
  const auto take = [&](Deadline which) {
    if (!deadlines_[which] || *deadlines_[which] > now) return false;
    deadlines_[which].reset();
    return true;
  };
  if (take(kWriteDeadline)) return Abort();
  if (take(kReadDeadline)) OnReadExpired();
  if (state_ == State::kAnswer && take(kSilenceDeadline)) {
    WritePing();
    Flush();
  }
  if (state_ != State::kClosed) ArmTimer();
}

void Connection::OnReadExpired() {
  if (state_ == State::kHandshake) return OnHandshakeFailed(HandshakeFailure::kTimeout, "it took too long");
  if (state_ != State::kRequest) return Close();
  const std::string_view part = request_->head_done ? "body" : "head";
  Refuse({ErrorCode::kTimeout, fmt::format("the request {} did not arrive in time", part), ""});
}

}  // namespace roost
