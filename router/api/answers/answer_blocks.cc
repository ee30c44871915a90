#include "router/api/answers/answer_blocks.h"

#include <utility>

namespace roost::router {

void AnswerBlocks::Push(const AnswerDelta& delta, BlockSink& sink) {
  if (!delta.reasoning.empty()) Append(BlockKind::kReasoning, delta.reasoning, sink);
  if (!delta.content.empty()) Append(BlockKind::kText, delta.content, sink);
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (!call.name.empty()) Open({.kind = BlockKind::kToolCall, .id = call.id, .name = call.name}, sink);
    if (!call.arguments.empty()) Append(BlockKind::kToolCall, call.arguments, sink);
  }
}

void AnswerBlocks::Finish(BlockSink& sink) {
  if (open_) sink.OnClose(*open_);
  open_.reset();
}

void AnswerBlocks::Append(BlockKind kind, std::string_view piece, BlockSink& sink) {
  if (!open_ || open_->kind != kind) Open({.kind = kind}, sink);
  open_->text += piece;
  sink.OnPiece(*open_, piece);
}

void AnswerBlocks::Open(AnswerBlock block, BlockSink& sink) {
  Finish(sink);
  block.index = count_++;
  open_ = std::move(block);
  sink.OnOpen(*open_);
}

std::vector<AnswerBlock> BlocksOf(const ChoiceAnswer& choice) {
  std::vector<AnswerBlock> blocks;
  const auto add = [&blocks](AnswerBlock block) {
    block.index = static_cast<std::uint32_t>(blocks.size());
    blocks.push_back(std::move(block));
  };
  if (!choice.reasoning.empty()) add({.kind = BlockKind::kReasoning, .text = choice.reasoning});
  if (!choice.content.empty()) add({.kind = BlockKind::kText, .text = choice.content});
  for (const ToolCall& call : choice.tool_calls) {
    add({.kind = BlockKind::kToolCall, .text = call.arguments, .id = call.id, .name = call.name});
  }
  return blocks;
}

}  // namespace roost::router
