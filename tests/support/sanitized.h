// Whether this build has a sanitizer. Random tests draw fewer cases then, because they take ten times as long; the
// release build draws the full number.
#pragma once

namespace roost::testing_support {

#ifdef ROOST_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace roost::testing_support
