#include "worker/grammar/grammar_library.h"

namespace roost::worker {

bool HasGrammarLibrary() { return false; }
std::unique_ptr<GrammarLibrary> OpenGrammarLibrary(const TokenTexts& /*texts*/, std::unique_ptr<JobServer> /*compiler*/,
                                                   JobLimits /*limits*/) {
  return nullptr;
}
std::unique_ptr<JobServer> StartCompiler() { return nullptr; }

}  // namespace roost::worker
