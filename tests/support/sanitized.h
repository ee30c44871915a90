// Whether this build has a sanitizer. Random tests draw fewer cases then, because they take ten times as long; the
// release build draws the full number.
#pragma once

namespace roost::testing_support {

#ifdef ROOST_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The thread sanitizer: what it slows is our code alone, not the libraries beside it.
#ifdef ROOST_SANITIZED_THREAD
inline constexpr bool kSanitizedThread = true;
#else
inline constexpr bool kSanitizedThread = false;
#endif

}  // namespace roost::testing_support
