#include "tests/support/source_dir.h"

#include <cstdlib>

namespace roost::testing_support {

const char* SourceDir() {
  const char* elsewhere = std::getenv("ROOST_SOURCE_DIR");
  return elsewhere != nullptr ? elsewhere : ROOST_SOURCE_DIR_TEXT;
}

}  // namespace roost::testing_support
