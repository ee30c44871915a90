// Where the checkout lies, for tests that read files of it. A function and not a macro's text: so no test's object file
// depends on the path, and a compiler cache serves every checkout. Tests that were built elsewhere are told of theirs by
// the environment: ROOST_SOURCE_DIR.
#pragma once

namespace roost::testing_support {

[[nodiscard]] const char* SourceDir();

}  // namespace roost::testing_support
