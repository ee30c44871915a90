#include "deploy/roostctl/chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <istream>
#include <ostream>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "deploy/roostctl/block_tree.h"
#include "deploy/roostctl/remote/http_client.h"

namespace roost::roostctl {
namespace {

constexpr std::string_view kMark = "> ";
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kPlain = "\x1b[0m";
// The bound of an answer through pipes, which no key stops.
constexpr std::uint32_t kPipedTokens = 1024;

// Writes an answer as it arrives.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(const ChatConsole& console) : console_(console) {}

  void Write(AnswerPart part, std::string_view text) {
    if (console_.screen == ChatScreen::kTerminal) {
      Switch(part);
      console_.out << ForTerminal(text) << std::flush;
    } else if (part == AnswerPart::kText) {
      console_.out << text << std::flush;
    }
  }

  void End() {
    Switch(AnswerPart::kText);
    console_.out << std::endl;
  }

 private:
  void Switch(AnswerPart part) {
    if (part == part_) return;
    console_.out << (part == AnswerPart::kReasoning ? kDim : kPlain);
    part_ = part;
  }

  const ChatConsole& console_;
  AnswerPart part_ = AnswerPart::kText;
};

bool IsBlank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

// The conversation so far, and the connection to the router.
class Chat {
 public:
  Chat(ChatOptions options, const ChatConsole& console)
      : options_(std::move(options)), console_(console), client_(options_.router) {
    // While an answer comes, libcurl ignores SIGPIPE, so a closed pipe shows in the stream alone.
    client_.StopWhen([this] { return !console_.out || (console_.interrupted && console_.interrupted()); });
    if (!options_.system.empty()) turns_.push_back({"system", options_.system});
  }

  // False at the end of the input.
  [[nodiscard]] bool ReadQuestion(std::string& question) const {
    do {
      if (console_.screen == ChatScreen::kTerminal) console_.out << kMark << std::flush;
      if (!std::getline(console_.in, question)) return false;
    } while (IsBlank(question));
    if (question.back() == '\r') question.pop_back();
    return true;
  }

  // False when no answer came.
  bool Ask(std::string question) {
    turns_.push_back({"user", std::move(question)});
    if (console_.interrupted) (void)console_.interrupted();  // discards presses from before the question
    AnswerPrinter printer(console_);
    ChatAnswer answer = AskChat(client_, ChatBody(Fields(), turns_),
                                [&printer](AnswerPart part, std::string_view text) { printer.Write(part, text); });
    printer.End();
    if (!answer.error.empty()) {
      turns_.pop_back();
      console_.err << "roostctl chat: " << answer.error << '\n';
      return false;
    }
    turns_.push_back({"assistant", answer.text});
    console_.err << (answer.stopped ? "[stopped]" : FiguresLine(answer)) << '\n';
    return true;
  }

 private:
  [[nodiscard]] ChatFields Fields() const {
    ChatFields fields{.model = options_.model, .max_tokens = {}, .temperature = {}};
    if (options_.max_tokens > 0) {
      fields.max_tokens = options_.max_tokens;
    } else if (console_.screen == ChatScreen::kPipe) {
      fields.max_tokens = kPipedTokens;
    }
    return fields;
  }

  const ChatOptions options_;
  const ChatConsole& console_;
  HttpClient client_;
  std::vector<ChatTurn> turns_;
};

sigset_t InterruptSignal() {
  sigset_t signals{};
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  return signals;
}

int RunChatCommand(Arguments arguments, const Console& console) {
  ChatOptions options;
  ConfigParser parser("roostctl chat",
                      "Talks to a model, one line per question. Ctrl-C stops an answer, Ctrl-D ends the conversation.");
  DeclareRouter(options.router, parser);
  parser.Add("model", options.model, "Model to ask; the router's first when empty")
      .Add("system", options.system, "System prompt")
      .Add("max-tokens", options.max_tokens,
           "Maximum tokens per answer; 0: to the end of the context, or 1,024 where input or output is no terminal",
           {.low = 0, .high = 1e6});
  if (const auto code = Ended(parser, arguments, console)) return *code;
  ChatConsole talk{.in = console.in, .out = console.out, .err = console.err};
  if (isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
    const InterruptKey key;
    talk.screen = ChatScreen::kTerminal;
    talk.interrupted = [key] { return key.Pressed(); };
  }
  return RunChat(options, talk);
}

}  // namespace

const Command kChatCommand{"chat", "talk to a model", &RunChatCommand};

std::string FiguresLine(const ChatAnswer& answer) {
  return fmt::format("[{}: {} prompt tokens, {} cached; first token after {:.1f} ms; {} tokens in {:.2f} s]",
                     answer.worker.empty() ? "?" : answer.worker, answer.prompt_tokens,
                     answer.cached_tokens ? fmt::to_string(*answer.cached_tokens) : "an unknown number",
                     answer.ttft_seconds * 1e3, answer.output_tokens, answer.total_seconds);
}

std::string ForTerminal(std::string_view text) {
  std::string shown;
  while (true) {
    const std::size_t end = std::min(text.find_first_of("\n\t"), text.size());
    shown += Printable(text.substr(0, end));
    if (end == text.size()) return shown;
    shown += text[end];
    text.remove_prefix(end + 1);
  }
}

int RunChat(const ChatOptions& given, const ChatConsole& console) {
  ChatOptions options = given;
  if (options.model.empty()) {
    Result<std::string> model = FirstModel(options.router);
    if (!model.ok()) {
      console.err << "roostctl chat: " << model.error().ToString() << '\n';
      return 1;
    }
    options.model = *std::move(model);
  }
  console.err << fmt::format("[{} at {}]\n", options.model, options.router.url);
  Chat chat(std::move(options), console);
  bool all_answered = true;
  for (std::string question; console.out && chat.ReadQuestion(question);) {
    all_answered = chat.Ask(question) && all_answered;
  }
  if (console.screen == ChatScreen::kTerminal) console.out << std::endl;
  return all_answered && console.out ? 0 : 1;
}

InterruptKey::InterruptKey() {
  const sigset_t signals = InterruptSignal();
  ROOST_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
}

bool InterruptKey::Pressed() const {
  const sigset_t signals = InterruptSignal();
  const timespec at_once{};
  return sigtimedwait(&signals, nullptr, &at_once) == SIGINT;
}

}  // namespace roost::roostctl
