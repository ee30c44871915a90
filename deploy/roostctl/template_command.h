// `roostctl template`: renders a chat template for people who debug prompts and cache misses.
//
//   in   one JSON object per line: {"context": {"messages": […], "tools": …, "bos_token": …, …}}
//   out  one per line, in order:   {"rendered": "…"} or {"error": "…"}
#pragma once

#include <iosfwd>
#include <optional>
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

}  // namespace roost::roostctl
