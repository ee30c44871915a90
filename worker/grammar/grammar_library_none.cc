#include "worker/grammar/grammar_library.h"

namespace roost::worker {

bool HasGrammarLibrary() { return false; }
std::unique_ptr<GrammarLibrary> OpenGrammarLibrary(const TokenTexts& /*texts*/) { return nullptr; }

}  // namespace roost::worker
