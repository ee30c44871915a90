// Random wire messages: every field is drawn at random, within its bounds. MakeHello, MakeStep and so on are made from
// the schema.
#pragma once

#include "schema/random_messages.h"

namespace roost::wire::testing {

class RandomMessages : public MessageMaker {
 public:
  using MessageMaker::MessageMaker;

  [[nodiscard]] WorkerMessage Worker() { return MakeWorkerMessage(); }
  [[nodiscard]] RouterMessage Router() { return MakeRouterMessage(); }
  [[nodiscard]] PeerMessage Peer() { return MakePeerMessage(); }
};

}  // namespace roost::wire::testing
