// A connection over the server's limit: it gets a 429 that its client can read. Private to common/http.
//
// Closing while the client's request is still on its way would reset the connection and lose the answer. So the server
// writes the answer, closes the sending side, and reads and drops input until the client has closed too or the time is
// over. So many as Count allows wait like this; another one is closed at once, and its client may see a reset.
#pragma once

#include <array>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

namespace roost {

class RefusedConnection : public std::enable_shared_from_this<RefusedConnection> {
 public:
  using Socket = boost::asio::generic::stream_protocol::socket;

  // The number of lingering connections on one event loop; used on its thread only.
  struct Count {
    std::size_t most = 1;
    std::size_t lingering = 0;
  };

  // Call it on the thread of `socket`'s event loop. `count` outlives the loop's handlers.
  static void Answer(Socket socket, const std::string& answer, std::chrono::milliseconds linger, Count& count);

  RefusedConnection(Socket socket, Count& count);
  RefusedConnection(const RefusedConnection&) = delete;
  RefusedConnection& operator=(const RefusedConnection&) = delete;
  ~RefusedConnection() { --count_.lingering; }

 private:
  void Read();

  Count& count_;
  Socket socket_;
  boost::asio::steady_timer timer_;
  std::array<char, 1024> dropped_{};
};

}  // namespace roost
