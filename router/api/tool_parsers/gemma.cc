// Gemma 4: <|tool_call>call:f{a:1,b:<|"|>x<|"|>,c:[{d:true}]}<tool_call|>. Names stand without quotes, and a text
// between its marks as it is, without escapes.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/json_writer.h"
#include "router/api/tool_parsers/call_form.h"
#include "router/api/tool_parsers/lenient_json.h"
#include "router/api/tool_parsers/partial_text.h"

namespace roost::router {
namespace {

constexpr std::string_view kGemmaBegin = "<|tool_call>";
constexpr std::string_view kGemmaEnd = "<tool_call|>";
constexpr std::string_view kGemmaCall = "call:";
constexpr std::string_view kGemmaQuote = R"(<|"|>)";

class GemmaForm final : public CallForm {
 public:
  [[nodiscard]] std::vector<std::string_view> Begins() const override { return {kGemmaBegin}; }
  [[nodiscard]] std::vector<std::string_view> Strays() const override { return {kGemmaEnd, kGemmaQuote}; }
  [[nodiscard]] bool MayBeginBare(char c) const override { return c == kGemmaCall.front(); }
  [[nodiscard]] BareCall ReadBare(std::string_view text, BarePlace place, const ToolSet& tools) const override;
  [[nodiscard]] bool is_whole() const override { return true; }
  void Reset(std::string_view) override { *this = GemmaForm(); }
  [[nodiscard]] CallHead ReadHead(std::string_view text) override;
  [[nodiscard]] CallTail ReadTail(std::string_view text) override;

 private:
  // Up to the brace that closes the arguments; false while they are open. A marker outside of texts ends them too.
  bool Scan(std::string_view text);

  std::string name_;
  std::size_t arguments_ = 0;  // where they begin
  std::size_t scanned_ = 0;
  std::size_t depth_ = 0;
  bool in_text_ = false;
};

class GemmaReader {
 public:
  explicit GemmaReader(std::string_view text) : text_(text) {}

  // The arguments as JSON; nothing if they are anything else.
  std::optional<std::string> Arguments() {
    std::string json;
    if (!Members(json, 0) || !Rest().empty()) return std::nullopt;
    return json;
  }

 private:
  static constexpr int kMaxGemmaDepth = 512;

  std::string_view Rest() { return text_ = text_.substr(std::min(text_.size(), text_.find_first_not_of(" \n\t\r"))); }
  bool Is(std::string_view mark) {
    if (!Rest().starts_with(mark)) return false;
    text_.remove_prefix(mark.size());
    return true;
  }
  std::string_view Before(std::string_view end) {
    const std::string_view before = text_.substr(0, text_.find_first_of(end));
    text_.remove_prefix(before.size());
    return before;
  }

  bool Members(std::string& out, int depth) {
    if (depth >= kMaxGemmaDepth || !Is("{")) return false;
    out += '{';
    for (bool first = true; !Is("}"); first = false) {
      if (!first && !Is(",")) return false;
      if (!first) out += ',';
      if (!Key(out) || !Is(":")) return false;
      out += ':';
      if (!Value(out, depth + 1)) return false;
    }
    out += '}';
    return true;
  }

  bool Items(std::string& out, int depth) {
    if (depth >= kMaxGemmaDepth || !Is("[")) return false;
    out += '[';
    for (bool first = true; !Is("]"); first = false) {
      if (!first && !Is(",")) return false;
      if (!first) out += ',';
      if (!Value(out, depth + 1)) return false;
    }
    out += ']';
    return true;
  }

  bool Key(std::string& out) {
    if (Text(out)) return true;
    const std::string_view key = Trimmed(Before(":,{}[]<\""));
    if (key.empty()) return false;
    AppendJsonString(key, out);
    return true;
  }

  bool Value(std::string& out, int depth) {
    if (Text(out)) return true;
    if (Rest().starts_with('{')) return Members(out, depth);
    if (Rest().starts_with('[')) return Items(out, depth);
    const std::optional<std::string> word = JsonOfLenient(Before(",]}"));
    if (word) out += *word;
    return word.has_value();
  }

  // Between its marks, or in JSON's quotes.
  bool Text(std::string& out) {
    if (Is(kGemmaQuote)) {
      const std::size_t size = text_.find(kGemmaQuote);
      if (size == std::string_view::npos) return false;
      AppendJsonString(text_.substr(0, size), out);
      text_.remove_prefix(size + kGemmaQuote.size());
      return true;
    }
    if (!Rest().starts_with('"')) return false;
    LenientJson string;
    text_.remove_prefix(string.Read(text_, out));
    return string.is_whole();
  }

  std::string_view text_;
};

}  // namespace

BareCall GemmaForm::ReadBare(std::string_view bytes, BarePlace, const ToolSet& tools) const {
  BareCall bare;
  for (const ToolFunction& function : tools.functions) {
    PartialText text(bytes);
    if (text.Take(kGemmaCall) && text.Take(function.name) && text.Take("{")) return {.verdict = FormVerdict::kFound};
    if (text.cut()) bare.verdict = FormVerdict::kMore;
  }
  return bare;
}

bool GemmaForm::Scan(std::string_view text) {
  while (scanned_ < text.size()) {
    const std::string_view rest = text.substr(scanned_);
    const char c = rest.front();
    if (c == '<') {
      if (rest.size() < kGemmaQuote.size() && kGemmaQuote.starts_with(rest)) return false;
      const bool is_quote = rest.starts_with(kGemmaQuote);
      if (!is_quote && !in_text_) return true;
      if (is_quote) in_text_ = !in_text_;
      scanned_ += is_quote ? kGemmaQuote.size() : 1;
      continue;
    }
    ++scanned_;
    if (in_text_) continue;
    if (c == '{' || c == '[') ++depth_;
    if ((c == '}' || c == ']') && --depth_ == 0) return true;
  }
  return false;
}

CallHead GemmaForm::ReadHead(std::string_view bytes) {
  if (name_.empty()) {
    PartialText text(bytes);
    text.SkipAll(kGemmaBegin);
    if (!text.Take(kGemmaCall)) return {.verdict = text.cut() ? FormVerdict::kMore : FormVerdict::kNone};
    const std::string_view name = text.TakeUntil("{<\n");
    if (!text.IsAt('{')) return {.verdict = text.cut() ? FormVerdict::kMore : FormVerdict::kNone};
    if (!IsFunctionName(Trimmed(name))) return {};
    name_ = Trimmed(name);
    arguments_ = scanned_ = text.position();
  }
  if (!Scan(bytes)) return {.verdict = FormVerdict::kMore};
  CallHead head{.verdict = FormVerdict::kNone, .size = scanned_};
  std::optional<std::string> arguments = GemmaReader(bytes.substr(arguments_, scanned_ - arguments_)).Arguments();
  if (!arguments) return head;
  head.verdict = FormVerdict::kFound;
  head.whole.push_back({.id = {}, .name = std::move(name_), .arguments = *std::move(arguments)});
  return head;
}

CallTail GemmaForm::ReadTail(std::string_view bytes) {
  PartialText text(bytes);
  text.SkipSpace();
  if (text.Take(kGemmaEnd)) return {.verdict = FormVerdict::kFound, .size = text.position()};
  return {.verdict = text.cut() ? FormVerdict::kMore : FormVerdict::kFound};
}

std::unique_ptr<CallForm> MakeGemmaForm() { return std::make_unique<GemmaForm>(); }

}  // namespace roost::router
