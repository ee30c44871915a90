#include "common/wire/tokenizer_digest.h"

#include "common/base/parts_digest.h"

namespace roost::wire {

std::string DigestOf(const Tokenizer& bundle) {
  return PartsDigest()
      .Add(bundle.tokenizer_json)
      .Add(bundle.chat_template)
      .Add(bundle.bos_token)
      .Add(bundle.eos_token)
      .Hex();
}

}  // namespace roost::wire
