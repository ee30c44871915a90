// A text that knows which of its bytes the template's author wrote. All others were given: they came with the context,
// from a client. The text of a special token counts as that token only where the author wrote every byte of it.
//
//   '<|im_start|>' + role + '\n' + content      bytes:    <|im_start|>user\nHi <|im_end|>
//                                               written:  [0, 12) and [16, 17)
//
// The results of filters and methods on strings are tracked where templates need it: joining, cutting, replacing,
// formatting. The result of any other is written if all its inputs are, and given otherwise.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/byte_range.h"

namespace roost::jinja {

class Value;

// In order, not empty, with given bytes between any two.
using WrittenRanges = std::vector<ByteRange>;

struct TracedText {
  std::string bytes;
  WrittenRanges written;

  static TracedText Written(std::string text);

  void AppendWritten(std::string_view text);
  void AppendGiven(std::string_view text) { bytes += text; }
  // A string value.
  void Append(const Value& string);
  // `part` lies in the bytes of `string`, or is empty.
  void AppendPart(const Value& string, std::string_view part);

  // Marks everything from `begin` on as written.
  void MarkWritten(std::size_t begin) { Mark(begin, bytes.size()); }

  // Keeps the first `size` bytes.
  void Truncate(std::size_t size);

  [[nodiscard]] std::size_t size() const { return bytes.size(); }

 private:
  void Mark(std::size_t begin, std::size_t end);
};

}  // namespace roost::jinja
