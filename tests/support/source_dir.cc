#include "tests/support/source_dir.h"

namespace roost::testing_support {

const char* SourceDir() { return ROOST_SOURCE_DIR_TEXT; }

}  // namespace roost::testing_support
