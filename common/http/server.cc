#include "common/http/server.h"

#include <fmt/format.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <cstring>
#include <exception>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/random_seed.h"
#include "common/base/thread_name.h"
#include "common/http/connection.h"
#include "common/http/refused_connection.h"

namespace roost {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Socket = Transport::Socket;
// An acceptor of TCP, or of sockets in the file system.
using Acceptor = asio::basic_socket_acceptor<asio::generic::stream_protocol>;

// The pause after an accept that failed for lack of descriptors or memory, so that connections can close.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::seconds kScarcityInterval{10};  // between two log lines about it
constexpr std::size_t kMaxThreads = 256;

std::string AnswerToOneTooMany(const Error& error) {
  const HttpResponse response = ErrorResponse(error);
  return fmt::format(
      "HTTP/1.1 429 Too Many Requests\r\nServer: roost\r\nConnection: close\r\nRetry-After: 1\r\n"
      "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
      response.body.size(), response.body);
}

bool IsScarcity(const boost::system::error_code& error) {
  return error == asio::error::no_descriptors || error == asio::error::no_memory ||
         error == asio::error::no_buffer_space || error == boost::system::errc::too_many_files_open_in_system;
}

// Runs the loop until it is stopped. Connection::Guard handles exceptions of a connection. Another exception is logged,
// and only the handler that threw it is lost.
void RunLoop(asio::io_context& context) {
  NameThisThread("http");
  for (;;) {
    try {
      context.run();
      return;
    } catch (const std::exception& thrown) {
      LogError("an exception in an event loop", {{"error", thrown.what()}});
    }
  }
}

}  // namespace

struct HttpServer::Impl {
  struct Worker {
    std::shared_ptr<IoThread> io;
    asio::executor_work_guard<asio::io_context::executor_type> work;
    std::thread thread;
  };

  std::shared_ptr<ServerShared> shared = std::make_shared<ServerShared>();
  std::vector<Worker> workers;
  std::uint16_t port = 0;
  bool stopped = false;

  // Used on the first worker's thread only.
  std::optional<Acceptor> acceptor;
  std::optional<asio::steady_timer> accept_pause;
  std::size_t next_worker = 0;
  std::chrono::steady_clock::time_point scarcity_told;

  Result<void> Listen();
  Result<void> ListenOnPort();
  Result<void> ListenOnPath();
  void Accept();
  void OnAcceptError(boost::system::error_code error);
  // Closes the connection that waits longest on one of the threads, beginning with number `first`, and accepts again;
  // where none waits, after a pause.
  void AcceptInPlaceOfAnother(std::size_t first, std::size_t asked);
  void AcceptAfterPause();
  // A connection that waits for a place, and its thread. The threads in turn are asked to close one of theirs.
  struct Candidate {
    std::shared_ptr<IoThread> io;
    Socket socket;
    std::size_t next = 0;   // the thread to ask next
    std::size_t asked = 0;  // threads that have none to close
  };
  using Candidates = std::list<Candidate>;
  // They stay here while threads are asked, so that each socket is gone before its thread's loop.
  std::mutex candidates_mutex;
  Candidates candidates;  // guarded by candidates_mutex; each element belongs to the thread that is asked

  void Refuse(Socket socket, const std::shared_ptr<IoThread>& io);
  void OnAccepted(Socket socket, const std::shared_ptr<IoThread>& io);
  void MakePlace(Candidates::iterator candidate);
  [[nodiscard]] Candidate Take(Candidates::iterator candidate);
  static void Adopt(Socket socket, const std::shared_ptr<IoThread>& io, std::shared_ptr<ServerShared> counted);
  void ForEachConnection(void (Connection::*act)());
  bool WaitUntilClosed(std::chrono::milliseconds timeout);
};

Result<void> HttpServer::Impl::Listen() {
  const HttpServerOptions& options = shared->options;
  acceptor.emplace(workers.front().io->context);
  accept_pause.emplace(workers.front().io->context);
  return options.unix_path.empty() ? ListenOnPort() : ListenOnPath();
}

Result<void> HttpServer::Impl::ListenOnPort() {
  const HttpServerOptions& options = shared->options;
  boost::system::error_code error;
  const asio::ip::address address = asio::ip::make_address(options.address, error);
  if (error) return InvalidArgument("address", "'{}' is not a numeric IPv4 or IPv6 address", options.address);
  const tcp::endpoint endpoint(address, options.port);
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  const auto bound = error ? Acceptor::endpoint_type() : acceptor->local_endpoint(error);
  if (error) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("can not listen on {}:{}: {}", options.address, options.port, error.message()), "port"};
  }
  tcp::endpoint with_port;
  with_port.resize(bound.size());
  std::memcpy(with_port.data(), bound.data(), bound.size());
  port = with_port.port();
  return {};
}

// Removes a socket that an earlier process left there, if no process answers at it. Only this user may connect.
Result<void> HttpServer::Impl::ListenOnPath() {
  const std::string& path = shared->options.unix_path;
  const auto problem = [&path](const std::string& what) {
    return Error{ErrorCode::kUnavailable, fmt::format("can not listen on {}: {}", path, what), "unix_path"};
  };
  if (path.size() >= sizeof(sockaddr_un::sun_path)) return problem("the path is too long");
  const asio::local::stream_protocol::endpoint endpoint(path);
  boost::system::error_code error;
  asio::local::stream_protocol::socket probe(workers.front().io->context);
  probe.connect(endpoint, error);
  if (!error) return problem("another process listens there");
  struct stat found {};
  if (lstat(path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return problem("there is a file that is not a socket");
    unlink(path.c_str());
  }
  acceptor->open(endpoint.protocol(), error);
  if (error) return problem(error.message());
  // Linux makes the file with the mode of the socket: so it is for its user alone from its first moment on.
  if (fchmod(acceptor->native_handle(), S_IRUSR | S_IWUSR) != 0) return problem("its mode can not be set");
  acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) return problem(error.message());
  return {};
}

void HttpServer::Impl::Accept() {
  const std::shared_ptr<IoThread>& io = workers[next_worker].io;
  next_worker = (next_worker + 1) % workers.size();
  acceptor->async_accept(io->context,
                         [this, weak_io = std::weak_ptr(io)](boost::system::error_code error, Socket socket) {
                           if (error == asio::error::operation_aborted || !acceptor->is_open()) return;
                           const std::shared_ptr<IoThread> target = weak_io.lock();
                           try {
                             if (!error && target) OnAccepted(std::move(socket), target);
                           } catch (const std::exception& thrown) {
                             LogError("an exception ends a connection", {{"error", thrown.what()}});
                           }
                           error ? OnAcceptError(error) : Accept();
                         });
}

void HttpServer::Impl::OnAcceptError(boost::system::error_code error) {
  if (error == asio::error::connection_aborted) return Accept();
  if (!IsScarcity(error)) return AcceptAfterPause();
  // The kernel takes a descriptor before it looks at the queue, so the queue may be empty.
  acceptor->async_wait(Acceptor::wait_read, [this, error](boost::system::error_code stopped_early) {
    if (stopped_early || !acceptor->is_open()) return;
    const auto now = std::chrono::steady_clock::now();
    if (now - scarcity_told >= kScarcityInterval) {
      scarcity_told = now;
      LogWarning("a connection can not be accepted: the one that waits longest is closed",
                 {{"error", error.message()}, {"port", port}});
    }
    AcceptInPlaceOfAnother(next_worker, 0);
  });
}

void HttpServer::Impl::AcceptInPlaceOfAnother(std::size_t first, std::size_t asked) {
  asio::io_context& own = workers.front().io->context;
  if (asked == workers.size()) return asio::post(own, [this] { AcceptAfterPause(); });
  IoThread& thread = *workers[(first + asked) % workers.size()].io;
  asio::post(thread.context, [this, &thread, &own, first, asked] {
    if (!Connection::EvictOne(thread)) return AcceptInPlaceOfAnother(first, asked + 1);
    asio::post(own, [this] {
      if (acceptor->is_open()) Accept();
    });
  });
}

void HttpServer::Impl::AcceptAfterPause() {
  if (!acceptor->is_open()) return;
  accept_pause->expires_after(kAcceptPause);
  accept_pause->async_wait([this](boost::system::error_code stopped_early) {
    if (!stopped_early && acceptor->is_open()) Accept();
  });
}

void HttpServer::Impl::Refuse(Socket socket, const std::shared_ptr<IoThread>& io) {
  const Error error{ErrorCode::kOverloaded, "the server has too many connections", ""};
  if (shared->options.on_refused) shared->options.on_refused(error);
  if (shared->options.tls != nullptr) return;  // the socket closes
  asio::post(io->context, [shared = shared, weak_io = std::weak_ptr(io), socket = std::move(socket), error]() mutable {
    const std::shared_ptr<IoThread> target = weak_io.lock();
    ROOST_CHECK(target != nullptr);
    RefusedConnection::Answer(std::move(socket), AnswerToOneTooMany(error), shared->options.linger_timeout,
                              target->refused);
  });
}

void HttpServer::Impl::OnAccepted(Socket socket, const std::shared_ptr<IoThread>& io) {
  std::shared_ptr<ServerShared> counted = CountConnection(shared);
  if (counted != nullptr) return Adopt(std::move(socket), io, std::move(counted));
  const auto own =
      std::find_if(workers.begin(), workers.end(), [&io](const Worker& worker) { return worker.io == io; });
  Candidates::iterator candidate;
  {
    const std::lock_guard lock(candidates_mutex);
    candidate = candidates.insert(candidates.end(), {.io = io, .socket = std::move(socket)});
  }
  candidate->next = static_cast<std::size_t>(own - workers.begin());
  try {
    MakePlace(candidate);
  } catch (const std::exception& thrown) {
    static_cast<void>(Take(candidate));
    LogError("an exception ends a connection", {{"error", thrown.what()}});
  }
}

void HttpServer::Impl::MakePlace(Candidates::iterator candidate) {
  if (candidate->asked == workers.size()) {
    Candidate taken = Take(candidate);
    return Refuse(std::move(taken.socket), taken.io);
  }
  IoThread& thread = *workers[candidate->next].io;
  asio::post(thread.context, [this, &thread, candidate] {
    if (Connection::EvictOne(thread)) {
      Candidate taken = Take(candidate);
      return Adopt(std::move(taken.socket), taken.io, CountConnection(shared, Place::kOfAnother));
    }
    candidate->next = (candidate->next + 1) % workers.size();
    ++candidate->asked;
    MakePlace(candidate);
  });
}

HttpServer::Impl::Candidate HttpServer::Impl::Take(Candidates::iterator candidate) {
  const std::lock_guard lock(candidates_mutex);
  Candidate taken = std::move(*candidate);
  candidates.erase(candidate);
  return taken;
}

void HttpServer::Impl::Adopt(Socket socket, const std::shared_ptr<IoThread>& io,
                             std::shared_ptr<ServerShared> counted) {
  // The connection is made on its own thread, because only that thread may use the IoThread's members.
  asio::post(io->context,
             [shared = std::move(counted), weak_io = std::weak_ptr(io), socket = std::move(socket)]() mutable {
               const std::shared_ptr<IoThread> target = weak_io.lock();
               ROOST_CHECK(target != nullptr);
               const auto connection = std::make_shared<Connection>(std::move(socket), std::move(shared), target);
               connection->Guard([&] { connection->Start(); });
             });
}

void HttpServer::Impl::ForEachConnection(void (Connection::*act)()) {
  for (const Worker& worker : workers) {
    asio::post(worker.io->context, [io = worker.io.get(), act] {
      std::vector<std::shared_ptr<Connection>> connections;
      for (Connection* connection : io->connections) connections.push_back(connection->shared_from_this());
      for (const std::shared_ptr<Connection>& connection : connections) ((*connection).*act)();
    });
  }
}

bool HttpServer::Impl::WaitUntilClosed(std::chrono::milliseconds timeout) {
  std::unique_lock lock(shared->mutex);
  return shared->all_closed.wait_for(lock, timeout, [this] { return shared->connection_count == 0; });
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() { Stop(std::chrono::milliseconds(0)); }

Result<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options, HttpHandler handler) {
  if (options.thread_count == 0 || options.thread_count > kMaxThreads) {
    return InvalidArgument("thread_count", "must be 1 to {}, not {}", kMaxThreads, options.thread_count);
  }
  auto impl = std::make_unique<Impl>();
  impl->shared->options = std::move(options);
  impl->shared->handler = std::move(handler);
  for (std::uint32_t i = 0; i < impl->shared->options.thread_count; ++i) {
    auto io = std::make_shared<IoThread>(RandomSeed());
    io->refused.most = kMaxLingering / impl->shared->options.thread_count + 1;
    impl->workers.push_back({io, asio::make_work_guard(io->context), std::thread()});
  }
  ROOST_RETURN_IF_ERROR(impl->Listen());
  impl->Accept();
  for (Impl::Worker& worker : impl->workers) {
    worker.thread = std::thread([io = worker.io.get()] { RunLoop(io->context); });
  }
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

std::uint16_t HttpServer::port() const { return impl_->port; }

std::size_t HttpServer::connection_count() const {
  const std::lock_guard lock(impl_->shared->mutex);
  return impl_->shared->connection_count;
}

bool HttpServer::LoopsTurn() {
  bool all = true;
  for (const Impl::Worker& worker : impl_->workers) {
    all = worker.io->turns.HasTurned() && all;
    asio::post(worker.io->context, [io = worker.io.get()] { io->turns.Turn(); });
  }
  return all;
}

void HttpServer::CloseAfterAnswers() { impl_->shared->closes_after_answers = true; }

void HttpServer::Stop(std::chrono::milliseconds drain_timeout) {
  if (std::exchange(impl_->stopped, true)) return;
  CloseAfterAnswers();
  impl_->shared->draining = true;
  asio::post(impl_->workers.front().io->context, [impl = impl_.get()] {
    boost::system::error_code ignored;
    impl->acceptor->close(ignored);
    impl->accept_pause->cancel();
  });
  impl_->ForEachConnection(&Connection::Drain);
  if (!impl_->WaitUntilClosed(drain_timeout)) {
    impl_->ForEachConnection(&Connection::Abort);
    // Closing takes one turn of each loop. The time is limited, so that a handler that blocks can not prevent the exit.
    impl_->WaitUntilClosed(std::chrono::seconds(5));
  }
  for (Impl::Worker& worker : impl_->workers) {
    worker.work.reset();
    worker.io->context.stop();
  }
  for (Impl::Worker& worker : impl_->workers) worker.thread.join();
  if (!impl_->shared->options.unix_path.empty()) unlink(impl_->shared->options.unix_path.c_str());
}

}  // namespace roost
