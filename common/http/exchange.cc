#include <boost/asio/post.hpp>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/http/connection.h"

namespace roost {
namespace {

bool RunsHere(const std::weak_ptr<IoThread>& weak_thread) {
  const std::shared_ptr<IoThread> thread = weak_thread.lock();
  return thread && thread->context.get_executor().running_in_this_thread();
}

// There is no answer any more that could be ended.
void RunWithoutConnection(const std::function<void()>& function) {
  try {
    function();
  } catch (const std::exception& thrown) {
    LogError("an exception in a function for a closed connection", {{"error", thrown.what()}});
  }
}

// Runs the functions of all letters, then writes the output that they added to each connection at once.
void Deliver(const std::vector<PostBox::Letter>& letters) {
  for (const PostBox::Letter& letter : letters) {
    const std::shared_ptr<Connection> connection = letter.connection.lock();
    connection ? connection->Guard([&] { letter.function(); }) : RunWithoutConnection(letter.function);
  }
  for (const PostBox::Letter& letter : letters) {
    const std::shared_ptr<Connection> connection = letter.connection.lock();
    if (connection) connection->Guard([&] { connection->Flush(); });
  }
}

}  // namespace

Exchange::~Exchange() {
  const std::shared_ptr<IoThread> thread = thread_.lock();
  if (state_ != State::kOpen || !thread) return;
  try {
    boost::asio::post(thread->context, [weak_connection = connection_] {
      const std::shared_ptr<Connection> connection = weak_connection.lock();
      if (connection) connection->Guard([&] { connection->Abandon(); });
    });
  } catch (const std::bad_alloc&) {
    // A destructor can not report this; the request ends when the client gives up.
  }
}

void Exchange::MarkEnded() {
  ROOST_CHECK(RunsHere(thread_), "an answer belongs to its connection's thread: use Post");
  state_ = State::kEnded;
  on_closed_ = nullptr;
}

void Exchange::MarkClosed() {
  if (state_ != State::kOpen) return;
  state_ = State::kClosed;
  const std::function<void()> callback = std::exchange(on_closed_, nullptr);
  if (callback) callback();
}

void Exchange::Respond(HttpResponse response) {
  if (state_ != State::kOpen) return;
  MarkEnded();
  if (const std::shared_ptr<Connection> connection = connection_.lock()) connection->Respond(std::move(response));
}

void Exchange::PrepareStream(std::vector<HttpHeader> headers) {
  if (state_ != State::kOpen) return;
  ROOST_CHECK(RunsHere(thread_), "an answer belongs to its connection's thread: use Post");
  if (const std::shared_ptr<Connection> connection = connection_.lock()) connection->PrepareStream(std::move(headers));
}

void Exchange::BeginBytes(BytesHead head) {
  if (state_ != State::kOpen) return;
  ROOST_CHECK(RunsHere(thread_), "an answer belongs to its connection's thread: use Post");
  if (const std::shared_ptr<Connection> connection = connection_.lock()) connection->BeginBytes(std::move(head));
}

void Exchange::Send(std::string frames) {
  if (state_ != State::kOpen) return;
  ROOST_CHECK(RunsHere(thread_), "an answer belongs to its connection's thread: use Post");
  if (const std::shared_ptr<Connection> connection = connection_.lock()) connection->Send(frames);
}

void Exchange::End() {
  if (state_ != State::kOpen) return;
  MarkEnded();
  if (const std::shared_ptr<Connection> connection = connection_.lock()) connection->End();
}

FailureShape Exchange::Fail(HttpResponse response, std::string frames) {
  if (state_ != State::kOpen) return FailureShape::kResponse;
  MarkEnded();
  const std::shared_ptr<Connection> connection = connection_.lock();
  return connection ? connection->Fail(std::move(response), frames) : FailureShape::kResponse;
}

void Exchange::OnClosed(std::function<void()> callback) {
  if (state_ == State::kClosed) return callback();
  if (state_ == State::kOpen) on_closed_ = std::move(callback);
}

void Exchange::Post(std::function<void()> function) {
  const std::shared_ptr<IoThread> thread = thread_.lock();
  if (!thread) return;
  thread->posts.Put({connection_, std::move(function)});
  if (!DeferredWakes::Add(thread)) thread->Wake();
}

void IoThread::Wake() {
  if (!posts.TakeRing()) return;
  try {
    boost::asio::post(context, [this] { Deliver(posts.Take()); });
  } catch (const std::bad_alloc&) {
    posts.GiveRingBack();  // the next post wakes the thread
  }
}

}  // namespace roost
