// The answer to one request, in one of two shapes:
//
//   whole    Respond
//   stream   PrepareStream*  Send*  (End | Fail)        server-sent events
//
// The head of a stream waits for the first frame, or for the first keep-alive comment if there is no frame for so long:
// until then Fail still gives the client a proper status.
//
// Threads: a connection lives on one thread of the server from accept to close. Post may be called from any thread and
// runs its function on that thread; all other functions are called there only: in the handler, in a posted function, in
// the OnClosed callback. So whoever answers a request needs no locks.
//
// An answer ends once. Calls after its end, or after the client went away, do nothing. A responder that is dropped
// without an end answers 500, or cuts the stream: a request is never left without an end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "router/http/http_message.h"

namespace roost::router {

// What a client sees of a failure.
enum class FailureShape { kResponse, kFrames };

class Responder {
 public:
  virtual ~Responder() = default;

  virtual void Respond(HttpResponse response) = 0;

  // Names the headers of the stream beside Content-Type, Cache-Control and X-Accel-Buffering. It may be called again
  // until the head is out; the last call counts. From here on keep-alive comments break the silence.
  virtual void PrepareStream(std::vector<HttpHeader> headers) = 0;

  // Whole frames, "data: …\n\n". What the client has not yet taken is bounded (HttpServerOptions::stream_buffer_bytes):
  // over it the client is cut, which OnClosed tells.
  virtual void Send(std::string frames) = 0;

  virtual void End() = 0;

  // Ends with `response` when nothing of the stream is out yet, else with `frames`, and tells which: a keep-alive
  // comment may have sent the head, with its status 200, before the first frame.
  virtual FailureShape Fail(HttpResponse response, std::string frames) = 0;

  // Called once if the client goes away, or is cut, before the answer ended; never after its end. The server notices at
  // any time, by reading ahead. Called at once when the client is gone already. One callback; set it in the handler.
  virtual void OnClosed(std::function<void()> callback) = 0;

  // From any thread. Functions run in the order they were posted, also after the client went away; they are dropped
  // when the server is gone.
  virtual void Post(std::function<void()> function) = 0;
};

// Runs on the connection's thread and must not block: it answers, or keeps the responder for later.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)>;

}  // namespace roost::router
