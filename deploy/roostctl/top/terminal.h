// The terminal of `roostctl top`: keys without Enter, a screen of its own, and its size.
#pragma once

#include <termios.h>

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "deploy/roostctl/top/frame.h"

namespace roost::roostctl {

// From its construction to its end the terminal shows another screen without a cursor and passes keys on at once;
// afterwards everything is as before. Standard input and output must be a terminal.
class Terminal {
 public:
  explicit Terminal(std::ostream& out);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // Waits for a key, a new size or the end of `at_most`; returns the key, if there was one. '\x03' is Ctrl-C, and also
  // stands for an input that is closed.
  [[nodiscard]] std::optional<char> WaitForKey(Duration at_most);

  [[nodiscard]] static Screen Size();

  // Draws the lines from the top, over what was there.
  void Show(const std::vector<std::string>& lines);

 private:
  std::ostream& out_;
  termios before_{};
};

}  // namespace roost::roostctl
