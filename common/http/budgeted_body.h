// Lets Boost.Beast's parser fill an HttpBody. Parsing fails with not_enough_memory when the budget has no room for the
// body. Private to common/http.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/optional/optional.hpp>
#include <cstddef>
#include <cstdint>

#include "common/http/http_body.h"

namespace roost {

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

}  // namespace roost
