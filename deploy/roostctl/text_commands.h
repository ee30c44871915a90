// The commands that show what becomes of a prompt: template and tokenize.
//
// `roostctl template`: renders a chat template for people who debug prompts and cache misses.
//
//   in   one JSON object per line: {"context": {"messages": […], "tools": …, "bos_token": …, …}}
//   out  one per line, in order:   {"rendered": "…"} or {"error": "…"}
#pragma once

#include <cstddef>
#include <filesystem>
#include <iosfwd>
#include <istream>
#include <optional>
#include <ostream>
#include <string>

#include "deploy/roostctl/command.h"

namespace roost::roostctl {

struct TemplateOptions {
  std::string template_path;
  // "2026-11-20T12:00:00" for strftime_now; absent: the current local time.
  std::optional<std::string> now;
};

// Returns the exit code: 0 when every line could be read and answered, even if a template's answer was an error; 1 when
// the template file or `now` is not valid (one line to `err`), or a line of `in` is not (an {"error"} takes its place).
int RunTemplate(const TemplateOptions& options, std::istream& in, std::ostream& out, std::ostream& err);

extern const Command kTemplateCommand;

// `roostctl tokenize --tokenizer FILE`: shows the tokens that the router makes of a text, to debug prompts and cache
// misses. One JSON object per line in, one per line out, in order:
//
//   {"text": "Hello"}   →   {"ids": [15496], "ids_with_special": [15496], "decoded": "Hello"}
//   anything else       →   {"error": "…"}
//
// `decoded` is the text of `ids`, with special tokens shown. Empty lines are skipped.

inline constexpr std::size_t kMaxTokenizeLineBytes = 64 * 1024 * 1024;

struct TokenizeOptions {
  std::filesystem::path tokenizer;  // a tokenizer.json
};

// Returns the exit code: 0; 1 when a line was bad (the others are answered); 2 when the tokenizer can not be used.
int RunTokenize(const TokenizeOptions& options, std::istream& in, std::ostream& out, std::ostream& err);

extern const Command kTokenizeCommand;

}  // namespace roost::roostctl
