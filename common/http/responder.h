// The answer to one request, in one of three shapes:
//
//   whole    Respond
//   stream   PrepareStream*  Send*  (End | Fail)        server-sent events
//   bytes    BeginBytes  Send*  (End | Fail)            any other body that comes in pieces
//
// The head of a stream is sent with the first frame, or with the first keep-alive comment if no frame comes before it.
// Until then Fail can still give the client a proper status.
//
// Threads: a connection stays on one thread of the server from accept to close. Post may be called from any thread and
// runs its function on that thread. All other functions are called on that thread only: in the handler, in a posted
// function, in the OnClosed callback. So handlers need no locks.
//
// An answer ends once. Calls after its end, or after the client has gone, do nothing. If the last owner drops a
// responder before the end, the client gets a 500, or its stream is cut: every request gets an end.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/http/http_message.h"

namespace roost {

// The form in which the client sees a failure: a response with an error status, or frames at the end of a stream.
enum class FailureShape { kResponse, kFrames };

// The head of an answer in the shape of bytes.
struct BytesHead {
  int status = 200;
  std::string content_type = {};
  std::vector<HttpHeader> headers = {};
  // Called after each write with the bytes of the body that left the process by it. The owner sends no more than it
  // wants to wait here: a client that reads slowly is not disconnected for that.
  std::function<void(std::size_t bytes)> on_written = {};
};

class Responder {
 public:
  virtual ~Responder() = default;

  virtual void Respond(HttpResponse response) = 0;

  // Sets the headers of the stream, in addition to Content-Type, Cache-Control and X-Accel-Buffering. It may be called
  // again until the head is sent; the last call counts. After the first call, keep-alive comments fill silences.
  virtual void PrepareStream(std::vector<HttpHeader> headers) = 0;

  // Begins an answer in the shape of bytes, unless a stream's head has been sent. No comment fills its silences.
  virtual void BeginBytes(BytesHead head) = 0;

  // Sends complete frames, "data: …\n\n", or the next bytes. HttpServerOptions::stream_buffer_bytes bounds the frames
  // that the client has not read yet: a client beyond the bound is disconnected, and OnClosed is called.
  virtual void Send(std::string frames) = 0;

  virtual void End() = 0;

  // Ends with `response` if the head of the stream has not been sent, otherwise with `frames`, and returns which. A
  // keep-alive comment may have sent the head, with status 200, before the first frame. Bytes that have begun are cut
  // off instead, so that the client sees that they are not whole.
  virtual FailureShape Fail(HttpResponse response, std::string frames) = 0;

  // Sets the callback for a client that leaves, or is disconnected, before the answer has ended. It is called once,
  // never after the end, and at once if the client is already gone. The server notices at any time, because it keeps
  // reading. Set the callback in the handler.
  virtual void OnClosed(std::function<void()> callback) = 0;

  // May be called from any thread. Functions run in the order in which they were posted, even after the client has
  // gone; they are dropped once the server is gone.
  virtual void Post(std::function<void()> function) = 0;
};

// Runs on the connection's thread and must not block: it answers, or keeps the responder for later.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)>;

}  // namespace roost
