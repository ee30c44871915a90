// The rules between the fields of a message, which no bound of one field tells: $check in schema/roost.capnp. The
// decoder calls them once the message is read. They also give a meaning to what a newer peer sent: `in` has the values
// that the plain message can not hold.
#pragma once

#include "common/base/result.h"
#include "common/wire/messages.h"
#include "schema/roost.capnp.h"

namespace roost::wire {

// A hello of another major version may mean anything by the fields behind its epoch.
[[nodiscard]] inline bool IsOfAnotherMajor(const Hello& hello) { return hello.version.major != kProtocolMajor; }

[[nodiscard]] Result<void> Check(schema::Hello::Reader in, const Hello& hello);
[[nodiscard]] Result<void> Check(schema::TokenEvent::Reader in, TokenEvent& event);
[[nodiscard]] Result<void> Check(schema::Load::Reader in, const Load& load);
[[nodiscard]] Result<void> Check(schema::Snapshot::Reader in, const Snapshot& snapshot);
[[nodiscard]] Result<void> Check(schema::Generate::Reader in, Generate& generate);
[[nodiscard]] Result<void> Check(schema::Evict::What::Prompt::Reader in, const PromptToEvict& prompt);
[[nodiscard]] Result<void> Check(schema::Hold::Reader in, const Hold& hold);

}  // namespace roost::wire
