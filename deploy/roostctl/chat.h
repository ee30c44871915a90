// `roostctl chat`: talks to a model, a line for each question, with the history of the conversation in every request.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "deploy/roostctl/chat_stream.h"

namespace roost::roostctl {

struct ChatOptions {
  std::string router = "http://127.0.0.1:8000";
  std::string model;             // empty: the first that the router serves
  std::string system;            // empty: none
  std::uint32_t max_tokens = 0;  // 0: to the context's end
};

// On a terminal there is a mark in front of each question, what a model thinks is shown dim, and what would change how
// the rest looks is escaped. To a pipe goes the text of the answers alone.
enum class ChatScreen { kTerminal, kPipe };

// Answers go to `out`, figures and errors to `err`.
struct ChatConsole {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  ChatScreen screen = ChatScreen::kPipe;
  // True once for each Ctrl-C. Empty: there is none.
  std::function<bool()> interrupted = {};
};

// "[worker-a: 812 prompt tokens, 800 cached; first token after 12.3 ms; 24 tokens in 0.31 s]".
[[nodiscard]] std::string FiguresLine(const ChatAnswer& answer);
// Text for a terminal; lines and tabs stay.
[[nodiscard]] std::string ForTerminal(std::string_view text);

// Until the input ends. A question that fails is no part of the history; a stopped answer is, as far as it came. The
// exit code: 0 when no question failed.
int RunChat(const ChatOptions& options, const ChatConsole& console);

// Ctrl-C as something to ask for. From here on it ends no process; threads that are made later inherit that.
class InterruptKey {
 public:
  InterruptKey();
  // True when it was pressed since the last call.
  [[nodiscard]] bool Pressed() const;
};

}  // namespace roost::roostctl
