#include "common/http/refused_connection.h"

#include <boost/asio/buffer.hpp>
#include <utility>

namespace roost {

void RefusedConnection::Answer(Socket socket, const std::string& answer, std::chrono::milliseconds linger,
                               Count& count) {
  boost::system::error_code error;
  socket.non_blocking(true, error);
  // One write is enough: the answer fits into the empty send buffer of a new socket.
  if (!error) socket.write_some(boost::asio::buffer(answer), error);
  if (!error) socket.shutdown(Socket::shutdown_send, error);
  if (error || count.lingering >= count.most) return;
  const auto connection = std::make_shared<RefusedConnection>(std::move(socket), count);
  connection->timer_.expires_after(linger);
  connection->timer_.async_wait([weak = connection->weak_from_this()](boost::system::error_code stopped_early) {
    const auto self = weak.lock();
    boost::system::error_code ignored;
    if (!stopped_early && self) self->socket_.close(ignored);
  });
  connection->Read();
}

RefusedConnection::RefusedConnection(Socket socket, Count& count)
    : count_(count), socket_(std::move(socket)), timer_(socket_.get_executor()) {
  ++count_.lingering;
}

void RefusedConnection::Read() {
  socket_.async_read_some(boost::asio::buffer(dropped_),
                          [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                            if (!error) self->Read();
                          });
}

}  // namespace roost
