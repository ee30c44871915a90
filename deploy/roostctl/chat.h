// `roostctl chat`: talks to a model, one line per question. Every request contains the conversation so far.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/chat_stream.h"
#include "deploy/roostctl/remote/router_access.h"

namespace roost::roostctl {

struct ChatOptions {
  RouterAccess router;
  std::string model;             // empty: the router's first
  std::string system;            // empty: none
  std::uint32_t max_tokens = 0;  // 0: to the end of the context, or 1,024 for a pipe
};

// A terminal gets a mark before each question, reasoning shown dim, and escapes for what would change the display. A
// pipe gets only the text of the answers.
enum class ChatScreen { kTerminal, kPipe };

// Answers go to `out`, figures and errors to `err`.
struct ChatConsole {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  ChatScreen screen = ChatScreen::kPipe;
  // True once for each Ctrl-C. Empty: there is no such key.
  std::function<bool()> interrupted = {};
};

// "[worker-a: 812 prompt tokens, 800 cached; first token after 12.3 ms; 24 tokens in 0.31 s]".
[[nodiscard]] std::string FiguresLine(const ChatAnswer& answer);
// Like Printable, but keeps line ends and tabs.
[[nodiscard]] std::string ForTerminal(std::string_view text);

// Runs until the input ends or the output is closed. A failed question does not enter the history; a stopped answer
// does, as far as it came. Returns the exit code: 0 when no question failed.
int RunChat(const ChatOptions& options, const ChatConsole& console);

// Makes Ctrl-C something to ask for. From its construction on, Ctrl-C ends no process; threads made later inherit that.
class InterruptKey {
 public:
  InterruptKey();
  // True when it was pressed since the last call.
  [[nodiscard]] bool Pressed() const;
};

extern const Command kChatCommand;

}  // namespace roost::roostctl
