// The location of the checkout, for tests that read its files. It is a function and not a macro, so that no test's
// object file depends on the path, and a compiler cache works for every checkout. Tests that were built elsewhere take
// ROOST_SOURCE_DIR from the environment.
#pragma once

namespace roost::testing_support {

[[nodiscard]] const char* SourceDir();

}  // namespace roost::testing_support
