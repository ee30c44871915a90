// Where the checkout lies, for tests that read files of it. A function and not a macro's text: so no test's object file
// depends on the path, and a compiler cache serves every checkout. ROOST_SOURCE_DIR in the environment tells tests that
// were built elsewhere.
#pragma once

namespace roost::testing_support {

[[nodiscard]] const char* SourceDir();

}  // namespace roost::testing_support
