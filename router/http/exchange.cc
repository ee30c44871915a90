#include <boost/asio/post.hpp>
#include <utility>

#include "common/base/check.h"
#include "router/http/connection.h"

namespace roost::router {
namespace {

bool RunsHere(const std::weak_ptr<IoThread>& weak_thread) {
  const std::shared_ptr<IoThread> thread = weak_thread.lock();
  return thread && thread->context.get_executor().running_in_this_thread();
}

}  // namespace

Exchange::~Exchange() {
  const std::shared_ptr<IoThread> thread = thread_.lock();
  if (state_ != State::kOpen || !thread) return;
  boost::asio::post(thread->context, [weak_connection = connection_] {
    if (const std::shared_ptr<Connection> connection = weak_connection.lock()) connection->Abandon();
  });
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

void Exchange::Fail(HttpResponse response, std::string frames) {
  if (state_ != State::kOpen) return;
  MarkEnded();
  if (const std::shared_ptr<Connection> connection = connection_.lock()) connection->Fail(std::move(response), frames);
}

void Exchange::OnClosed(std::function<void()> callback) {
  if (state_ == State::kClosed) return callback();
  if (state_ == State::kOpen) on_closed_ = std::move(callback);
}

void Exchange::Post(std::function<void()> function) {
  if (const std::shared_ptr<IoThread> thread = thread_.lock()) boost::asio::post(thread->context, std::move(function));
}

}  // namespace roost::router
