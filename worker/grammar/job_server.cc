#include "worker/grammar/job_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>

namespace roost::worker {
namespace {

constexpr std::size_t kPieceBytes = 64 * 1024;
constexpr int kServerSocket = 3;  // in the server; in a job, the job's
constexpr int kNiceness = 10;

// ---- frames: eight bytes of length, then so many bytes; these two stand for a job that a timer ended ----

constexpr std::uint64_t kTooLongMark = UINT64_MAX;
constexpr std::uint64_t kNotInTimeMark = UINT64_MAX - 1;

bool SendAll(int socket, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(socket, data, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool ReadAll(int socket, char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t got = read(socket, data, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool SendFrame(int socket, std::string_view bytes) {
  std::array<char, sizeof(std::uint64_t)> head{};
  const std::uint64_t size = bytes.size();
  std::memcpy(head.data(), &size, head.size());
  return SendAll(socket, head.data(), head.size()) && SendAll(socket, bytes.data(), bytes.size());
}

std::optional<std::uint64_t> ReadLength(int socket) {
  std::array<char, sizeof(std::uint64_t)> head{};
  if (!ReadAll(socket, head.data(), head.size())) return std::nullopt;
  std::uint64_t length = 0;
  std::memcpy(&length, head.data(), head.size());
  return length;
}

// Grows with what arrives, so that a length alone takes no memory.
std::optional<std::string> ReadBytes(int socket, std::uint64_t left) {
  std::string bytes;
  while (left > 0) {
    const std::size_t piece = std::min<std::uint64_t>(left, kPieceBytes);
    const std::size_t begin = bytes.size();
    bytes.resize(begin + piece);
    if (!ReadAll(socket, bytes.data() + begin, piece)) return std::nullopt;
    left -= piece;
  }
  return bytes;
}

std::optional<std::string> ReadFrame(int socket) {
  const std::optional<std::uint64_t> length = ReadLength(socket);
  return length ? ReadBytes(socket, *length) : std::nullopt;
}

JobResult ReadResult(int socket, std::size_t most) {
  const std::optional<std::uint64_t> length = ReadLength(socket);
  if (length == kTooLongMark) return {.end = JobResult::End::kTooLong};
  if (length == kNotInTimeMark) return {.end = JobResult::End::kNotInTime};
  if (!length || *length > most) return {};
  std::optional<std::string> answer = ReadBytes(socket, *length);
  return answer ? JobResult{JobResult::End::kAnswered, *std::move(answer)} : JobResult{};
}

// ---- orders to the server: a job's limits, with its socket ----

struct Order {
  std::int64_t processor_microseconds;
  std::int64_t clock_microseconds;
  std::uint64_t bytes;
};
union Control {
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
  cmsghdr alignment;
};

msghdr MessageOf(Order& order, iovec& part, Control& control) {
  part = {&order, sizeof(order)};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  return message;
}

bool SendOrder(int socket, Order order, int job_socket) {
  iovec part{};
  Control control{};
  msghdr message = MessageOf(order, part, control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &job_socket, sizeof(int));
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(sizeof(order));
}

// Negative when this process's parent is gone.
int ReceiveOrder(int socket, Order& order) {
  iovec part{};
  Control control{};
  msghdr message = MessageOf(order, part, control);
  ssize_t got = -1;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  } while (got < 0 && errno == EINTR);
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (got != static_cast<ssize_t>(sizeof(order)) || header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int job_socket = -1;
  std::memcpy(&job_socket, CMSG_DATA(header), sizeof(int));
  return job_socket;
}

// ---- in the server and in jobs ----

void EndWithParent(pid_t parent) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
}

// The parent's signals are not meant for this process: it ends when the parent does.
void LeaveParentsWays() {
  (void)dup2(STDERR_FILENO, STDOUT_FILENO);
  (void)close_range(kServerSocket + 1, ~0U, 0);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) (void)std::signal(number, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  (void)sigprocmask(SIG_SETMASK, &none, nullptr);
  (void)setpriority(PRIO_PROCESS, 0, kNiceness);
  (void)prctl(PR_SET_NAME, "grammar-jobs");
}

std::uint64_t VirtualBytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  unsigned long long pages = 0;
  const bool is_read = file != nullptr && std::fscanf(file, "%llu", &pages) == 1;
  if (file != nullptr) (void)std::fclose(file);
  return is_read ? pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

// SIGPROF tells that the processor time is used up, SIGALRM that the clock has run out.
void EndJob(int signal) {
  const std::uint64_t mark = signal == SIGPROF ? kTooLongMark : kNotInTimeMark;
  (void)send(kServerSocket, &mark, sizeof(mark), MSG_NOSIGNAL | MSG_DONTWAIT);
  _exit(0);
}

void SetTimer(int signal, std::int64_t microseconds) {
  (void)std::signal(signal, &EndJob);
  itimerval timer{};
  timer.it_value = {microseconds / 1'000'000, microseconds % 1'000'000};
  (void)setitimer(signal == SIGPROF ? ITIMER_PROF : ITIMER_REAL, &timer, nullptr);
}

// An answer under way is not cut by a mark.
void StopTimers() {
  for (const int number : {SIGPROF, SIGALRM}) (void)std::signal(number, SIG_IGN);
}

void Limit(const Order& order) {
  const rlimit memory{VirtualBytes() + order.bytes, VirtualBytes() + order.bytes};
  (void)setrlimit(RLIMIT_AS, &memory);
  const rlimit no_core{0, 0};
  (void)setrlimit(RLIMIT_CORE, &no_core);
  // Should the system look for a process to kill for its memory, it is this one.
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file >= 0) {
    (void)!write(file, "1000", 4);
    (void)close(file);
  }
  SetTimer(SIGPROF, order.processor_microseconds);
  SetTimer(SIGALRM, order.clock_microseconds);
}

[[noreturn]] void RunJob(const JobServer::Job& job, const Order& order) {
  Limit(order);
  if (const std::optional<std::string> request = ReadFrame(kServerSocket)) {
    const std::string answer = job(*request);
    StopTimers();
    (void)SendFrame(kServerSocket, answer);
  }
  _exit(0);
}

[[noreturn]] void Serve(JobServer::Prepare prepare, pid_t parent) {
  EndWithParent(parent);
  LeaveParentsWays();
  const std::optional<std::string> setup = ReadFrame(kServerSocket);
  if (!setup) _exit(0);
  const JobServer::Job job = prepare(*setup);
  const pid_t server = getpid();
  while (true) {
    Order order{};
    const int socket = ReceiveOrder(kServerSocket, order);
    if (socket < 0) _exit(0);
    const pid_t child = fork();
    if (child == 0) {
      EndWithParent(server);
      if (dup2(socket, kServerSocket) != kServerSocket) _exit(1);
      (void)close(socket);
      RunJob(job, order);
    }
    (void)close(socket);
  }
}

struct Pair {
  int ours = -1;
  int theirs = -1;
};
std::optional<Pair> MakePair() {
  std::array<int, 2> sockets{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) return std::nullopt;
  return Pair{sockets[0], sockets[1]};
}

}  // namespace

std::unique_ptr<JobServer> JobServer::Start(Prepare prepare) {
  const std::optional<Pair> pair = MakePair();
  if (!pair) return nullptr;
  const pid_t parent = getpid();
  const pid_t server = fork();
  if (server == 0) {
    if (dup2(pair->theirs, kServerSocket) != kServerSocket) _exit(1);
    if (pair->theirs == kServerSocket) (void)fcntl(kServerSocket, F_SETFD, 0);
    Serve(prepare, parent);
  }
  (void)close(pair->theirs);
  if (server > 0) return std::unique_ptr<JobServer>(new JobServer(pair->ours, server));
  (void)close(pair->ours);
  return nullptr;
}

JobServer::~JobServer() {
  Stop();
  (void)close(socket_);
  while (waitpid(server_, nullptr, 0) < 0 && errno == EINTR) continue;
}

void JobServer::Stop() {
  (void)shutdown(socket_, SHUT_RDWR);
  (void)kill(server_, SIGKILL);  // it is not waited for before the end, so the number is still its own
}

bool JobServer::SetUp(std::string_view setup) {
  const std::lock_guard lock(mutex_);
  return SendFrame(socket_, setup);
}

JobResult JobServer::Run(std::string_view request, const JobLimits& limits) {
  const std::optional<Pair> pair = MakePair();
  if (!pair) return {.end = JobResult::End::kNotInTime};
  const auto microseconds = [](Duration time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time).count() + 1;
  };
  const Order order{microseconds(limits.processor_time), microseconds(limits.clock_time), limits.bytes};
  bool is_sent = false;
  {
    const std::lock_guard lock(mutex_);
    is_sent = SendOrder(socket_, order, pair->theirs);
  }
  (void)close(pair->theirs);
  JobResult result{.end = JobResult::End::kNotInTime};
  if (is_sent && SendFrame(pair->ours, request)) result = ReadResult(pair->ours, limits.answer_bytes);
  (void)close(pair->ours);
  return result;
}

}  // namespace roost::worker
