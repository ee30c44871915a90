// Constraints as clients send them: the first byte is the kind, the rest the text. Any input is refused by its field or
// becomes an input of the library; a rewritten schema is still JSON.
#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/check.h"
#include "common/grammar/constraint_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace roost;
  if (size == 0) return 0;
  constexpr int kKinds = 6;
  const wire::Constraint constraint{.kind = static_cast<wire::ConstraintKind>(data[0] % kKinds),
                                    .text = std::string(reinterpret_cast<const char*>(data + 1), size - 1),
                                    .field = "field"};
  const Result<grammar::LibraryInput> input = grammar::LibraryInputOf(constraint);
  if (!input.ok()) {
    ROOST_CHECK(input.error().code == ErrorCode::kInvalidArgument && input.error().field == "field");
    return 0;
  }
  ROOST_CHECK(!input->text.empty());
  if (input->form == grammar::LibraryForm::kSchema) {
    simdjson::dom::parser parser;
    ROOST_CHECK(parser.parse(input->text).error() == simdjson::SUCCESS, "{}", input->text);
  }
  return 0;
}
