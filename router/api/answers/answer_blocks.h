// A choice as a sequence of blocks (reasoning, text, tool calls), for the APIs whose answers have blocks. A stream
// opens a block, adds to it, and closes it before it opens the next one.
//
// Pure; one for each answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "router/api/answer.h"

namespace roost::router {

enum class BlockKind : std::uint8_t { kReasoning, kText, kToolCall };

struct AnswerBlock {
  BlockKind kind = BlockKind::kText;
  std::uint32_t index = 0;  // 0, 1, … within the answer
  std::string text = {};    // so far; for a tool call, its arguments
  std::string id = {};      // of a tool call
  std::string name = {};    // of a tool call
};

class BlockSink {
 public:
  virtual ~BlockSink() = default;
  virtual void OnOpen(const AnswerBlock& block) = 0;
  // `piece` is new; block.text already ends with it.
  virtual void OnPiece(const AnswerBlock& block, std::string_view piece) = 0;
  virtual void OnClose(const AnswerBlock& block) = 0;
};

class AnswerBlocks {
 public:
  void Push(const AnswerDelta& delta, BlockSink& sink);
  // Closes the open block, if there is one.
  void Finish(BlockSink& sink);

 private:
  void Append(BlockKind kind, std::string_view piece, BlockSink& sink);
  void Open(AnswerBlock block, BlockSink& sink);

  std::optional<AnswerBlock> open_;
  std::uint32_t count_ = 0;
};

// The blocks of a whole choice.
[[nodiscard]] std::vector<AnswerBlock> BlocksOf(const ChoiceAnswer& choice);

}  // namespace roost::router
