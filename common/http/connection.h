// One client's connection, from accept to close, on one thread. Private to common/http. connection.cc has what
// comes in, connection_output.cc what goes out.
//
//   kHandshake ──► kIdle, with TLS; without it a connection begins there
//
//              bytes               head and body complete          all of the answer written
//   kIdle ──────────────► kRequest ──────────────────────► kAnswer ─────────────────────────► kIdle   (keep-alive)
//     │ idle_timeout         │ malformed, too big, too slow   ▲ │ client gone: OnClosed      └─► kLinger (close)
//     ▼                      └────────────────────────────────┘ ▼                                 │
//   kClosed ◄───────────────────────────────────────────────── kClosed ◄──────────────────────────┘ peer closes
//
// The connection reads at nearly all times, also while a request is being answered, so that it notices when the client
// disconnects. It stops reading only when the client sends more than header_bytes ahead, or more than memory allows.
// One write is outstanding while there is output; output that is added meanwhile goes into the next write.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/base/byte_budget.h"
#include "common/base/deferred_wakes.h"
#include "common/base/rng.h"
#include "common/base/turn_count.h"
#include "common/http/http_message.h"
#include "common/http/refused_connection.h"
#include "common/http/responder.h"
#include "common/http/server.h"
#include "common/http/transport.h"

namespace roost {

// Functions that other threads have for a thread of the server, in the order in which they came. Private to
// common/http.
//
// Waking a thread costs more than most of these functions, so it is woken once for all that come together:
//
//   any thread    Put*  TakeRing: true ──► wakes the thread
//   the thread    Take ──► runs them

class Connection;

class PostBox {
 public:
  struct Letter {
    std::weak_ptr<Connection> connection;
    std::function<void()> function;
  };

  void Put(Letter letter) {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(letter));
  }

  // Takes the duty to wake the thread: true if letters wait and the thread was not woken for them. Then the caller must
  // wake it.
  [[nodiscard]] bool TakeRing() {
    const std::lock_guard lock(mutex_);
    return !letters_.empty() && !std::exchange(is_rung_, true);
  }
  // The caller could not wake it.
  void GiveRingBack() {
    const std::lock_guard lock(mutex_);
    is_rung_ = false;
  }

  [[nodiscard]] std::vector<Letter> Take() {
    const std::lock_guard lock(mutex_);
    is_rung_ = false;
    return std::exchange(letters_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<Letter> letters_;  // guarded by mutex_, as the next
  bool is_rung_ = false;         // the thread will call Take
};

class Connection;
class Exchange;

// The state that all connections of a server share. Thread-safe.
struct ServerShared {
  HttpServerOptions options;
  HttpHandler handler;
  std::atomic<bool> closes_after_answers = false;
  std::atomic<bool> draining = false;

  std::mutex mutex;
  std::condition_variable all_closed;
  std::size_t connection_count = 0;  // guarded by mutex
};

// One event loop. Only its own thread uses the members other than `posts` and `context`, and only it runs
// what is posted.
struct IoThread final : Sleeper {
  static constexpr std::size_t kReadBytes = 64 * 1024;

  explicit IoThread(std::uint64_t seed) : ids(seed), read_buffer(kReadBytes) {}

  // Runs what is in `posts` on this thread.
  void Wake() override;

  Rng ids;
  HttpDateClock date;
  std::vector<char> read_buffer;  // shared by all its connections, so that a waiting connection needs no buffer
  std::unordered_set<Connection*> connections;
  // Connections that may be closed to make room for a new one, those that wait longest first: for their client to send
  // something, or to read the end of an answer.
  std::list<Connection*> waiting;
  std::list<Connection*> unread;
  RefusedConnection::Count refused;
  TurnCount turns;  // see HttpServer::LoopsTurn
  PostBox posts;
  boost::asio::io_context context{1};  // last member: handlers that it destroys may use the others
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = Transport::Socket;

  // `shared` comes from CountConnection. `thread` outlives the connection: its handlers live in the thread's context.
  Connection(Socket socket, std::shared_ptr<ServerShared> shared, const std::shared_ptr<IoThread>& thread);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  void Start();
  // Closes at once when idle, otherwise after the open answer.
  void Drain();
  // Closes the connection of `thread` that waits longest for its client; false when none may be closed. On the thread.
  [[nodiscard]] static bool EvictOne(const IoThread& thread);
  // Treats the client as gone: runs the open answer's OnClosed and resets the socket.
  void Abort();

  // ---- for Exchange, which forwards only while its answer is open ----
  void Respond(HttpResponse response);
  void PrepareStream(std::vector<HttpHeader> headers);
  void BeginBytes(BytesHead head);
  // Written by the next Flush, so that the frames of one function leave in one write.
  void Send(std::string_view frames);
  void End();
  FailureShape Fail(HttpResponse response, std::string_view frames);
  // The last owner dropped the exchange before the answer ended.
  void Abandon();
  // Writes what the answer has so far. Called when a function that an answer's owner runs on this thread returns.
  void Flush();

  // Runs `function`. If it throws (out of memory, or from a library), only this connection ends, with an error status
  // if nothing has been sent yet.
  template <typename Function>
  void Guard(Function function) {
    try {
      function();
    } catch (const std::bad_alloc&) {
      OnOutOfMemory();
    } catch (const std::exception& thrown) {
      OnException(thrown.what());
    } catch (...) {
      OnException("not a std::exception");
    }
  }

 private:
  enum class State { kHandshake, kIdle, kRequest, kAnswer, kLinger, kClosed };
  enum class Answer { kOpen, kPrepared, kStreaming, kEnded };
  enum Deadline : std::size_t { kReadDeadline, kWriteDeadline, kSilenceDeadline, kDeadlineCount };
  enum class Framing { kChunked, kUntilClose };
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Request;  // a request that is being read

  void Handshake();
  void OnHandshakeReady(boost::system::error_code error);
  void OnHandshakeFailed(HandshakeFailure failure, const std::string& why);
  void BeginIdle();

  void Read();
  void OnReadable(boost::system::error_code error);
  void OnInputEnded();
  void TakeInput(std::string_view bytes);
  // Charges input_ to the budget when it is larger than kFreeInputBytes. False when the budget has no room.
  [[nodiscard]] bool ChargeInput();
  void Advance();
  void BeginRequest();
  void ParseHead();
  void JudgeHead();
  [[nodiscard]] bool SkipBody();
  void AwaitBody();
  void InviteBody();
  void ParseBody(std::string_view arrived);
  void Handle(std::optional<HttpResponse> refusal = std::nullopt);
  void OnOutOfMemory();
  void Refuse(const Error& error);
  void Refuse(const HttpRequest& head, HttpResponse refusal);
  void BeginRefusal(std::string request_id);

  void WriteStreamHead();
  void WriteFrames(std::string_view frames);
  void WritePing();
  void EndStream();
  [[nodiscard]] bool ChargeStream();
  void AbortLater();
  [[nodiscard]] std::string Head(int status, const std::vector<HttpHeader>& headers) const;
  void OnWritten(boost::system::error_code error);
  void FinishAnswer();
  void Linger();
  void EndOutput();
  void Close();

  // In the list of those that wait in the same way: behind them, or as the next to be closed.
  enum class Turn { kLast, kNext };
  void JoinWaiting(std::list<Connection*>& list, Turn turn = Turn::kLast);
  void LeaveWaiting();

  void Expire(Deadline deadline, std::chrono::milliseconds after);
  void ArmTimer();
  void OnTimer();
  void OnReadExpired();
  void OnException(const char* what);

  const std::shared_ptr<ServerShared> shared_;
  IoThread& thread_;
  const std::weak_ptr<IoThread> weak_thread_;
  Transport transport_;
  std::string client_;  // the peer's address

  State state_ = State::kIdle;
  bool read_pending_ = false;
  bool input_ended_ = false;
  bool reads_ahead_ = true;  // false: no memory to read more before the answer is sent
  std::string input_;        // read and not yet parsed
  ByteBudget::Guard input_memory_;
  std::unique_ptr<Request> request_;

  // The answer; valid in kAnswer.
  Answer answer_ = Answer::kOpen;
  std::weak_ptr<Exchange> exchange_;
  std::string request_id_;
  std::vector<HttpHeader> cors_headers_;
  bool is_head_request_ = false;
  bool keep_alive_ = false;
  Framing framing_ = Framing::kChunked;
  std::vector<HttpHeader> stream_headers_;
  std::function<void(std::size_t)> on_written_;  // of an answer in the shape of bytes; null: it has another one
  std::size_t unwritten_bytes_ = 0;              // of its body, in output_
  std::size_t writing_bytes_ = 0;                // the same, in writing_

  std::string output_;                                // to be written next
  std::string body_;                                  // of a large answer, to be written after output_
  std::string writing_;                               // being written; empty when no write is outstanding
  std::size_t backlog_ = 0;                           // bytes of a stream that the last Flush left unwritten
  ByteBudget::Guard output_memory_;                   // of what is written, on the budget of the request
  std::shared_ptr<ByteBudget::Guard> answer_memory_;  // the answer's own charge; null: it has none

  std::list<Connection*>* waits_in_ = nullptr;  // null: in none
  std::list<Connection*>::iterator waits_at_;
  TimePoint waits_since_;

  // One timer for all deadlines. When a deadline moves later the timer is not touched: when it fires, it is set again.
  boost::asio::steady_timer timer_;
  std::array<std::optional<TimePoint>, kDeadlineCount> deadlines_;
  std::optional<TimePoint> armed_;
};

// The Responder of one request. It may outlive connection, thread and server.
class Exchange final : public Responder {
 public:
  Exchange(std::weak_ptr<Connection> connection, std::weak_ptr<IoThread> thread)
      : connection_(std::move(connection)), thread_(std::move(thread)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() override;

  void Respond(HttpResponse response) override;
  void PrepareStream(std::vector<HttpHeader> headers) override;
  void BeginBytes(BytesHead head) override;
  void Send(std::string frames) override;
  void End() override;
  FailureShape Fail(HttpResponse response, std::string frames) override;
  void OnClosed(std::function<void()> callback) override;
  void Post(std::function<void()> function) override;

  // ---- for Connection ----
  void MarkEnded();
  void MarkClosed();

 private:
  enum class State { kOpen, kEnded, kClosed };

  const std::weak_ptr<Connection> connection_;
  const std::weak_ptr<IoThread> thread_;
  // Used on the connection's thread; the destructor, on any thread, reads it when no other owner is left.
  State state_ = State::kOpen;
  std::function<void()> on_closed_;
};

// A connection that takes the place of another is counted before that one is gone.
enum class Place { kFree, kOfAnother };

// A copy of `shared` for one more connection, which is counted until the copy is destroyed. Null when there are already
// max_connections and no other makes place.
[[nodiscard]] std::shared_ptr<ServerShared> CountConnection(const std::shared_ptr<ServerShared>& shared,
                                                            Place place = Place::kFree);

}  // namespace roost
