// `roostctl top`: a router and its workers as they are now, drawn anew each second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "deploy/roostctl/command.h"
#include "deploy/roostctl/remote/router_access.h"
#include "deploy/roostctl/top/top_sample.h"

namespace roost::roostctl {

// One picture of `roostctl top`, as lines of text.

inline constexpr std::size_t kMinColumns = 80;
inline constexpr std::size_t kUncut = 0;  // columns of what is no terminal

struct Screen {
  std::size_t columns = kMinColumns;  // kUncut: lines are as long as they are
  std::size_t rows = 24;              // 0: as many as there are lines
};

// Changes from `before` to `now` are shown as rates. `title` names the router. No line is longer than the screen is
// wide (but at least kMinColumns); lines that do not fit its height are left out, with a line that says so.
[[nodiscard]] std::vector<std::string> DrawFrame(std::string_view title, const TopSample& before, const TopSample& now,
                                                 const Screen& screen);

struct TopOptions {
  RouterAccess admin{kDefaultAdminUrl};
  std::string metrics_url = "http://127.0.0.1:8002";  // for percentiles; they are "-" where it does not answer
  double interval_seconds = 1;
  bool once = false;         // one frame without colours and keys
  bool no_prefixes = false;  // does not ask workers for them
};

// Without `once`, needs a terminal. Returns the exit code: 0; 1 when the router does not answer (with `once`; without,
// it is asked again); 64 without a terminal.
int RunTop(const TopOptions& options, std::ostream& out, std::ostream& err);

extern const Command kTopCommand;

}  // namespace roost::roostctl
