#include "router/api/text_memory.h"

#include <fmt/format.h>

#include <string>

#include "common/base/ids.h"
#include "common/prefix/block_hash.h"

namespace roost::router {
namespace {

// Per byte of text: simdjson takes 14, whatever the text; the rest is for the text itself and copies of its strings.
constexpr std::uint64_t kJsonFactor = 16;
// One value as requests and templates hold it, including its share of the container around it.
constexpr std::uint64_t kNodeBytes = 96;
// Per byte of text: the worst case, a single endless word, takes 48; the rest is for the text and its source.
constexpr std::uint64_t kEncodeFactor = 56;
// What every request needs in addition to its prompt: entries in the request book, the answer's state.
constexpr std::uint64_t kRequestBytes = 8 * 1024;
constexpr std::uint64_t kScoredTokenBytes = 128;

}  // namespace

std::uint64_t ParseBytes(std::size_t body_bytes) { return kRequestBytes + 2 * kJsonFactor * body_bytes; }

std::uint64_t ParseBytes(std::size_t body_bytes, std::size_t nodes) {
  return ParseBytes(body_bytes) + 2 * body_bytes + kNodeBytes * nodes;
}

std::uint64_t EncodeBytes(std::size_t text_bytes) { return kRequestBytes + kEncodeFactor * text_bytes; }

std::uint64_t SpecBytes(const GenerateSpec& spec) {
  const std::uint64_t once =
      spec.prompt.capacity() * sizeof(TokenId) + spec.block_hashes.capacity() * sizeof(BlockHash);
  // The prompt's log probabilities, as values and as JSON, wait in memory until the answer begins.
  const std::uint64_t scored = spec.prompt_logprobs ? spec.prompt.size() * (1 + *spec.prompt_logprobs) : 0;
  return kRequestBytes + 2 * once + scored * kScoredTokenBytes;
}

Result<void> Hold(ByteBudget::Guard& memory, std::uint64_t bytes) {
  if (memory.TryResize(bytes)) return {};
  if (!memory.CouldHold(bytes)) {
    return Error{ErrorCode::kBodyTooLarge,
                 fmt::format("the request needs {} bytes of memory, more than this server has for requests", bytes),
                 ""};
  }
  return Error{ErrorCode::kOverloaded, "the server has no memory for more requests now", ""};
}

}  // namespace roost::router
