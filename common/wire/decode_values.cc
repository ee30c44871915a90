#include "common/wire/decode_values.h"

#include <string_view>

#include "common/base/utf8.h"

namespace roost::wire {

Result<void> ReadText(capnp::Text::Reader text, TextRule rule, const char* field, std::string& out) {
  if (rule.kind == TextKind::kLabel && text.size() == 0) return DataLoss(field, "empty");
  if (text.size() > rule.most) return DataLoss(field, "{} bytes of text, limit {}", text.size(), rule.most);
  const std::string_view view(text.cStr(), text.size());
  if (!IsValidUtf8(view)) return DataLoss(field, "text is not UTF-8");
  if (rule.kind != TextKind::kAny && HasControlCharacter(view)) return DataLoss(field, "holds a control character");
  if (rule.kind == TextKind::kLabel && HasInvisibleCharacter(view)) {
    return DataLoss(field, "holds a character that nobody sees");
  }
  out = view;
  return {};
}

}  // namespace roost::wire
